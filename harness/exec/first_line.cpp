#include "harness/exec/first_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "harness/exec/findings.h"
#include "harness/record/one_line.h"
#include "reports/folder.h"
#include "reports/history/history.h"
#include "reports/history/trial_times.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// Key of a program's duration: its words, and the flags that decide how long it takes.
std::string timed_as(const ExecOptions& exec) {
  return fmt::format("{} {} {} {} {}: {}", exec.mode, fmt::join(exec.schedules, ","), exec.ranks,
                     fmt::join(exec.as_ranks, ","), exec.of, fmt::join(exec.program, " "));
}

/// The history beside the default folder, as that of `tidemark run`.
fs::path history_file() { return default_folder("").parent_path() / kHistoryFile; }

}  // namespace

std::string first_line(const ExecOptions& exec, const std::string& host) {
  const auto took = past_program_time(history_file(), host, timed_as(exec));
  return "tidemark: virtual " + (exec.gpu.empty() ? "h100-80g" : exec.gpu) +
         (exec.mode == "math" ? "; the CPU computes the numbers"
                              : "; --mode math computes losses") +
         (took ? "; took " + in_minutes(*took) + " last time\n" : "\n");
}

void remember(const ExecOptions& exec, const std::string& host, Ns took) {
  try {
    record_program_time(history_file(), host, timed_as(exec), took);
  } catch (const HistoryError& error) {
    say("warning: this run is not in the history: " + one_line(error.what()) + "\n");
  }
}

}  // namespace tidemark
