// `tidemark fit`: the largest value, and the GPU, with which a PyTorch program fits.
#pragma once

#include "harness/record/record.h"

namespace tidemark {

/// argv[1] is "fit"; `version` names this tidemark. Returns 0 if a value fits, 1 if none does, or
/// 130 after Ctrl-C. Throws UsageError.
int fit_program(int argc, char** argv, const RunRecord& version);

}  // namespace tidemark
