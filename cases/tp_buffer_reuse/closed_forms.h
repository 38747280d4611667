// A rank's memory as it must be: on paper, and as the replay of a plan.
#pragma once

#include <vector>

#include "cases/tp_buffer_reuse/model.h"
#include "cases/tp_buffer_reuse/variants.h"

namespace tidemark::tp_buffer_reuse {

/// Peaks and ends of forward, backward and optimizer in the last step, as sums of named amounts
/// (forms.h). A control is held to what the variant keeps that it pretends to be; one that pretends
/// nothing has none, and so has a trial of a single step, whose first products make workspaces.
std::vector<Expectation> on_paper(const Trial& trial, const Variant& variant, int rank);

/// The same in all four statistics, of the plan (reference/transformer_plan.h) in the model of the
/// allocator.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);

}  // namespace tidemark::tp_buffer_reuse
