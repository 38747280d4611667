// Extent of what is recorded of a trial beside its peaks and verdicts, which depends on the other
// trials of the plan.
#pragma once

#include <string>
#include <vector>

#include "harness/run/plan.h"
#include "harness/run/runner.h"

namespace tidemark {

/// Sets details, run_ahead and growth. `details`: none, worst or all, as in --details.
void set_extent(RunOptions& options, const PlannedTrial& one,
                const std::vector<PlannedTrial>& planned, const std::string& details);

}  // namespace tidemark
