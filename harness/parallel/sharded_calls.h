// Verdicts on the order of a sharded step's calls (ShardedStep::observe).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// How many frozen units were still whole when the backward of the unit two before them began, or
/// (the first two) when backward ended. Units are named "unit <index>", in the order of their
/// forwards; `frozen` says it of each.
std::int64_t resharded_late(const std::vector<Call>& calls, const std::vector<bool>& frozen);

}  // namespace tidemark
