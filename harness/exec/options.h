// Flags of `tidemark exec`.
#pragma once

#include <string>
#include <vector>

#include "harness/exec/wishes.h"
#include "reports/compare/threshold.h"

namespace tidemark {

struct ExecOptions {
  std::vector<std::string> program;
  int ranks = 0, devices = 0, timeout = 0;
  std::vector<int> as_ranks;
  int of = 0;
  std::vector<std::string> schedules;  // the program runs once under each
  std::string gpu, capacity, alloc_conf, mode, known_limit, sizes, races, max_peak, out, report,
      base;
  std::vector<std::string> threshold_texts;
  std::vector<Threshold> thresholds;
  Wishes wishes;
};

/// Reads and checks the words of a command line. Returns an exit code where that was all (--help),
/// else -1. Throws UsageError in one line.
int parse_exec(int argc, char** argv, ExecOptions& exec);

}  // namespace tidemark
