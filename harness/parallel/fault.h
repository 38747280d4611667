// Faults on demand, for tests: TIDEMARK_FAULT="rank=2 call=all_gather nth=7 do=throw" breaks the
// seventh all_gather of rank 2. Without nth the first call breaks, and without call any call. ';'
// separates several faults, and each counts its calls separately. harness/README.md lists the
// actions.
#pragma once

#include <string>

namespace tidemark {

/// Called where a collective begins, or a communicator ("communicator"). Throws
/// std::invalid_argument for a plan that cannot be read.
void maybe_fault(int rank, const std::string& call);

/// The planned faults of this rank that have not happened, a line each: the plan, and how many such
/// calls there were.
std::string faults_left(int rank);

}  // namespace tidemark
