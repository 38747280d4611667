// Verdicts on a rank's log of calls: its actions, and the blocks that it ran again.
#pragma once

#include <vector>

#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

/// leak/requested/end and /peak: every step holds more than the step before by what is expected.
std::vector<Verdict> leaks(const Formula& expected, const std::vector<Step>& steps);

/// order/schedule and cost/recomputed_blocks: the actions of the last step are the schedule's, and
/// checkpointed blocks were run again as often as the passes need. Of the baseline that never
/// collects its cycles, leaks() besides.
std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record);

}  // namespace tidemark::zero_bubble_detach
