// The result of a run: read from what `tidemark exec` and the program have left in its folder.
#pragma once

#include <filesystem>

#include "harness/record/fit.h"

namespace tidemark {

/// `folder` has the output of both (`log`), the report or its JSON alone (`report/`) or the cause
/// that there is none (`cause`), and the marks of python/tidemark_steady.py (`steady/`). Throws
/// UsageError if exec has refused the command, and std::runtime_error if it failed, each with its
/// line.
/// `killed`: how a signal has ended exec itself; empty: none has.
FitRun read_run(const FitValues& values, const std::filesystem::path& folder,
                const std::string& killed);

/// The program ran to its end, or to where its steps repeat, without an out-of-memory error.
inline bool ended_well(const FitRun& run) {
  return run.exit_code == 0 && run.ooms == 0 && run.unknown.empty();
}

/// True if processes that share a GPU have together more than `most` of it at their peaks. Each of
/// them has a whole GPU in the run, which then does not say whether they fit.
inline bool shares(const FitRun& run, Bytes most) { return run.shared && run.shared->bytes > most; }

/// The last line of a program's output that says why it failed: the last one of a traceback, else
/// the last one that is not tidemark's.
std::string last_line(const std::string& output);

}  // namespace tidemark
