// `tidemark advise`: changes of a program that need no edit of it, each tried by a run.
#pragma once

#include "harness/fit/runs.h"

namespace tidemark {

/// Runs the program with these values, each change alone and the best together, and computes what
/// needs no run. `room` is the profile of runs with room to spare. After Ctrl-C only the rows that
/// have run. Throws UsageError and std::runtime_error as Runs::run, and UsageError if the program
/// itself does not run.
Advice advise(Runs& runs, const FitValues& values, const FitGpu& gpu, const std::string& room);

/// argv[1] is "advise". Returns 0, or 1 if the program itself does not run, or 130 after Ctrl-C.
/// Throws UsageError.
int advise_program(int argc, char** argv, const RunRecord& version);

}  // namespace tidemark
