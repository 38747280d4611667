// What a rank holds between the passes of its schedule, in the words of a formula.
#pragma once

#include <vector>

#include "cases/zero_bubble_detach/model.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

/// Requested bytes after the marked actions of the last step: equalities. Controls: what they
/// claim, the residency of drop_grads_hooks.
std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank);

/// The same for a policy; `workspace` bytes of one cuBLAS workspace.
std::vector<Expectation> closed_forms(const Trial& trial, const StagePolicy& policy, int rank,
                                      Bytes workspace);

}  // namespace tidemark::zero_bubble_detach
