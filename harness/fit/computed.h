// Savings that are computed from the record of a run: the program did not run so.
#pragma once

#include <vector>

#include "harness/record/fit.h"

namespace tidemark {

/// 8-bit optimizer states, a loss in chunks, FSDP over more ranks: how much less would be alive at
/// the peak of `run`. What the run has none of has no row.
std::vector<AdviceRow> computed_rows(const FitRun& run);

}  // namespace tidemark
