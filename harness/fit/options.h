// Flags of `tidemark fit`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/fit/gpus.h"
#include "harness/fit/variable.h"

namespace tidemark {

struct FitOptions {
  std::vector<std::string> program;
  std::vector<Variable> variables;
  std::vector<Gpu> gpus;
  std::vector<std::string> exec;  // flags that each run of `tidemark exec` gets
  std::string out, report, cache;
  std::string executor;                       // slurm, local; empty: this process runs them
  std::vector<std::string> executor_options;  // NAME=VALUE, of submitit
  int jobs = 0;
  int limit = 1800;  // seconds of a run
  bool until_steady = true, server = true, fresh = false, advise = false;
  bool refusals = false;  // that exec refuses the command is the result of its run
};

/// Reads and checks the words of a command line of fit, or of advise, which varies nothing, and of
/// the file of --config, which come before them. Returns an exit code where that was all (--help),
/// else -1. Throws UsageError in one line.
int parse_fit(int argc, char** argv, FitOptions& fit);

}  // namespace tidemark
