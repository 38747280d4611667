// `tidemark advise`: changes of a program that need no edit of it, each tried by a run.
#pragma once

#include "harness/record/record.h"

namespace tidemark {

/// argv[1] is "advise". Returns 0, or 1 if the program itself does not run, or 130 after Ctrl-C.
/// Throws UsageError.
int advise_program(int argc, char** argv, const RunRecord& version);

}  // namespace tidemark
