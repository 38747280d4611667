// Table of what a run would do, for --dry-run.
#pragma once

#include <vector>

#include "harness/cli/options.h"

namespace tidemark {

/// Prints which trials would run and which would be skipped, and about how long all of it takes:
/// the sum of what the same trials took last on this host, as far as the history beside the run's
/// folder knows them.
void print_plan(const std::vector<PlannedTrial>& planned, const Options& options);

}  // namespace tidemark
