// Blocks, map, spans, events, gradients and verdicts of a made-up trial.
#pragma once

#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// A heap of eight units of `unit` bytes in two segments, in which every unit is gathered, used and
/// freed; `pending`: the frees wait until the end of the step. Spans of two streams, one collective
/// and one operator a unit.
void add_memory(RankRecord& rank, Bytes unit, bool pending);

/// One race between the last unit's collective and its operator.
void add_race(RankRecord& rank);

std::vector<GradientError> sample_gradients(Role role, bool wrong);

/// All pass but one of `separate_streams` under lagging; controls are caught.
std::vector<Verdict> sample_verdicts(const TrialRecord& trial);

}  // namespace tidemark
