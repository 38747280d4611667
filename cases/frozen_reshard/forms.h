// Forms of a rank's memory: the highest of the moments of each phase, what every backward leaves,
// and the trajectory. Nothing here is taken from the plan.
#pragma once

#include <vector>

#include "harness/scenario.h"

namespace tidemark::frozen_reshard {

/// Of allocated, active and requested bytes: the peaks of every forward, backward and the optimizer
/// in the last step; the end of every backward; residency when a unit's backward begins, and at the
/// end of backward before the catch-all. Of controls the last alone.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);

std::vector<Symbol> symbols();

}  // namespace tidemark::frozen_reshard
