// The verdicts of a made-up trial.
#pragma once

#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// All pass but one of `separate_streams` under lagging; controls are caught.
std::vector<Verdict> sample_verdicts(const TrialRecord& trial);

}  // namespace tidemark
