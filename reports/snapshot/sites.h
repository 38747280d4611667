// The places of two snapshots' allocations, by what they say.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"

namespace tidemark {

/// The name in `after` of each place in `before` that is another one there: lines are paired by
/// file and function, and by their source where both snapshots have it; their numbers, and the
/// bytes that they allocate, tell equal ones apart (reports/compare/lines.h).
std::map<std::string, std::string> moved_sites(const Snapshot& before,
                                               const std::vector<Site>& sites_before,
                                               const Snapshot& after,
                                               const std::vector<Site>& sites_after);

/// Changes between two snapshots (differ), in which a line that only stands elsewhere is the same.
std::vector<SiteChange> changes_between(const Snapshot& before, const Snapshot& after);

}  // namespace tidemark
