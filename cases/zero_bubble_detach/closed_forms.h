// Closed forms of what a rank holds between the actions of its schedule, and of its peaks.
#pragma once

#include <string>
#include <vector>

#include "cases/zero_bubble_detach/model.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

/// Of the last step: requested bytes after the marked actions, and from the second step on the
/// peaks of the pipeline and of the optimizer and the pipeline's end. Controls: what they claim,
/// the residency of drop_grads_hooks.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);

/// What every symbol stands for.
std::vector<Symbol> symbols();

/// The first action whose pass (passes.h) does not end with what is held after it, or empty.
std::string unbalanced(const Trial& trial, const Variant& variant, int rank);

/// Requested bytes that every step adds to what the rank holds, where cycles are never collected.
/// "0" where there are none.
Formula leak(const Trial& trial, const StagePolicy& policy, int rank);

}  // namespace tidemark::zero_bubble_detach
