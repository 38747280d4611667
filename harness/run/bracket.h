// Verdicts over several trials: a run with a clock lies between the two schedules that need no
// clock.
#pragma once

#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// Adds to every trial with a clock (calibrated, random; device, of a real GPU), for each baseline
/// and fixed variant, rank and phase of the last step, a verdict bracket/requested/<phase>: the
/// peak lies between those of the same trial under instant and under lagging. That is a theorem,
/// not a tolerance: the host makes the same calls under every schedule, and a freed block that
/// waits for a stream is given back no later under instant, and no earlier under lagging, than on
/// any clock. It is one of requested bytes alone: in the others a block is as large as the free
/// block that happened to fit. Nothing is added where one of the three trials is not in the run.
void judge_brackets(std::vector<TrialRecord>& trials);

}  // namespace tidemark
