// Flags of `tidemark exec`.
#pragma once

#include <string>
#include <vector>

#include "harness/exec/wishes.h"
#include "harness/ranks/launcher.h"
#include "reports/compare/threshold.h"

namespace tidemark {

struct ExecOptions {
  std::vector<std::string> program;
  int ranks = 0, devices = 0, timeout = 0;
  std::vector<int> as_ranks;
  int of = 0;
  std::vector<std::string> schedules;  // the program runs once under each
  std::string gpu, capacity, reserve, alloc_conf, mode, known_limit, sizes, races, max_peak, out,
      report, base, events, color = "auto";
  std::vector<std::string> fits;  // profiles
  bool force = false;             // an earlier report and file are replaced
  bool own_folder = false;        // `report` is the default folder
  std::vector<std::string> threshold_texts;
  std::vector<Threshold> thresholds;
  bool room = true;  // a program that runs out of memory runs again with room to spare
  Wishes wishes;
  /// The flags that `tidemark advise` takes too, beside --gpu.
  std::vector<std::string> of_advise() const;
};

/// Reads and checks the words of a command line. Returns an exit code where that was all (--help),
/// else -1. Throws UsageError in one line.
int parse_exec(int argc, char** argv, ExecOptions& exec);

/// Throws UsageError where the flags do not go with processes that a launcher has started.
void check_launched(const ExecOptions& exec, const Launcher& launcher);

/// Makes the folder of --report. Throws UsageError if it is not empty, if the file of --out is
/// there, or if they cannot be written. With --force it may hold an earlier report, and the file
/// may be there. `in_job`: others of the same job may be about to begin; the earlier report is
/// removed.
void check_places(const ExecOptions& exec, bool in_job);

}  // namespace tidemark
