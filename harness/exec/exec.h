// `tidemark exec`: a PyTorch program on the virtual platform, and the report of its peaks.
#pragma once

#include "harness/record/record.h"

namespace tidemark {

/// argv[1] is "exec"; `version` names this tidemark. Returns the program's exit code, or 1 where it
/// is 0 and a wanted verdict fails. Throws UsageError.
int exec_program(int argc, char** argv, const RunRecord& version);

}  // namespace tidemark
