// Capacity of the virtual GPUs of a trial: a property of the trial alone, not of what else runs.
#pragma once

#include <string>
#include <vector>

#include "harness/run/plan.h"

namespace tidemark {

/// Sets, for each trial that fits the ranks, `needs`: the most that the closed forms say any
/// variant of the scenario reserves on any rank (on `as_rank` alone where that is a rank),
/// whichever variants were asked for. On the virtual platform also `capacity`: the profile's where
/// that is enough, else so much more that nothing runs out; with `fixed` always the platform's.
/// Where no form says how much is reserved, twice what is known of the other statistics must fit.
void choose_capacities(std::vector<PlannedTrial>& planned, int as_rank, bool fixed);

/// Notes for stderr, a line for each size that does not fit the profile.
std::string capacity_notes(const std::vector<PlannedTrial>& planned);

}  // namespace tidemark
