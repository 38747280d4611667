// The sizes of a trial by their names: its language model and its schedule.
#pragma once

#include "harness/parallel/language_model.h"
#include "harness/parallel/pipeline_schedule.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

struct Sizes : LanguageModel {
  explicit Sizes(const Trial& trial);
  int microbatches;
};

/// The trial's schedule; throws std::invalid_argument as make_schedule() does.
PipelineSchedule schedule_of(const Trial& trial);

}  // namespace tidemark::zero_bubble_detach
