// The replay of the plan, and the claims that variants are held against.
#pragma once

#include <vector>

#include "cases/frozen_reshard/setup.h"
#include "harness/scenario.h"

namespace tidemark::frozen_reshard {

/// Equalities in all four statistics: the peaks of every forward, backward and the optimizer in the
/// last step, what every backward leaves, and the trajectory: residency when each unit's backward
/// begins, and at the end of backward before the catch-all.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);

/// What the variant claims to do: its own policy, or, of a control, that of the fix it pretends to
/// be, in the trial that it needs.
Policy claim_of(const Variant& variant);

}  // namespace tidemark::frozen_reshard
