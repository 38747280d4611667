// Parts of a trial's record, put together: of the ranks, and of the shards of a parameter.
#pragma once

#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// Takes in a row of another shard or rank: the worst of both, the earlier first difference.
void worse(std::vector<GradientError>& rows, const GradientError& row);

/// Adds to one rank's part of a trial another rank's, of the same variants in the same order.
void join(TrialRecord& mine, TrialRecord theirs);

}  // namespace tidemark
