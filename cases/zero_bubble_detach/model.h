// The sizes of a trial by their names: its language model and its schedule.
#pragma once

#include "harness/parallel/language_model.h"
#include "harness/parallel/pipeline_schedule.h"
#include "harness/scenario.h"
#include "reference/language_model_plan.h"
#include "reference/lookup_plan.h"

namespace tidemark::zero_bubble_detach {

struct Sizes : LanguageModel {
  explicit Sizes(const Trial& trial);
  int microbatches;
  /// A norm so narrow for its tokens sums its weight's gradient in two steps, with temporaries
  /// that are not modelled (aten/src/ATen/native/cuda/layer_norm_kernel.cu).
  bool sums_norms_in_parts(std::int64_t processors) const {
    return tokens > 65536 && block.hidden / 32 < processors / 2;
  }
};

/// What the plans on paper must know of a microbatch.
reference::MicrobatchShape microbatch_shape(const Sizes& sizes);
reference::LookupPlan lookup_plan(const Sizes& sizes, const reference::DeviceFacts& device);

/// The trial's schedule; throws std::invalid_argument as make_schedule() does.
PipelineSchedule schedule_of(const Trial& trial);

}  // namespace tidemark::zero_bubble_detach
