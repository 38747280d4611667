// The step's memory by its plan (reference/language_model_step_plan.h).
#pragma once

#include <vector>

#include "cases/zero_bubble_detach/model.h"

namespace tidemark::zero_bubble_detach {

/// Of the last step: peaks of the pipeline and of the optimizer and the pipeline's end in every
/// statistic, and requested bytes after the marked actions. None of a control. Where the first
/// stage sorts its tokens, only what is there at the end.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);

}  // namespace tidemark::zero_bubble_detach
