// The sizes of a trial by their names: its language model and its schedule.
#pragma once

#include "harness/parallel/language_model.h"
#include "harness/parallel/pipeline_schedule.h"
#include "harness/scenario.h"
#include "reference/language_model_plan.h"

namespace tidemark::zero_bubble_detach {

struct Sizes : LanguageModel {
  explicit Sizes(const Trial& trial);
  int microbatches;
  /// The gradient of an embedding sorts its tokens (aten/src/ATen/native/cuda/Embedding.cu).
  bool sorts_tokens() const { return tokens > 3072; }
};

/// What the plans on paper must know of a microbatch.
reference::MicrobatchShape microbatch_shape(const Sizes& sizes);

/// The trial's schedule; throws std::invalid_argument as make_schedule() does.
PipelineSchedule schedule_of(const Trial& trial);

}  // namespace tidemark::zero_bubble_detach
