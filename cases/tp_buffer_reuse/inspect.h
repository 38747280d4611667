// Verdicts on what the policies cost: collectives.
#pragma once

#include <vector>

#include "harness/scenario.h"

namespace tidemark::tp_buffer_reuse {

/// cost/all_gather and cost/reduce_scatter: how many of each a rank has called in all steps, as a
/// closed form.
std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record);

}  // namespace tidemark::tp_buffer_reuse
