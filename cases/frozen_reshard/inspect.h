// Verdicts on the log of calls: every gather, reshard, reduction and hook, in order and as often as
// the plan says; frozen units resharded in time; none left whole, none used after it was freed.
#pragma once

#include <vector>

#include "harness/scenario.h"

namespace tidemark::frozen_reshard {

std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record);

}  // namespace tidemark::frozen_reshard
