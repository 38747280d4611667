// The command line as data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/run/plan.h"

namespace tidemark {

struct Options {
  std::string command;             // "list" or "run"
  std::vector<std::string> names;  // of scenarios, for list; none: all
  Request request;
  std::string device = "auto", gpu, capacity, alloc_conf, out, color = "auto";
  std::string collectives = "auto", races = "on", details = "worst";
  std::string resume;  // the folder of an earlier run: its finished trials are taken over
  int timeout = 300, repetitions = 1;
  std::string executor;                       // "local" or "slurm": each trial is a job; else empty
  std::vector<std::string> executor_options;  // NAME=VALUE, parameters of submitit
  int only = -1;         // the one trial of the plan that this process runs; -1: all
  int as_rank = -1;      // a rank of the request's, whose memory one process has; -1: all ranks run
  bool history = true;   // whether the run goes into history.sqlite
  bool events = false;   // whether allocator/ is written
  bool numbers = false;  // whether numbers/ is
  bool require_all = false;  // whether a skipped trial is a failure
  bool force = false;        // whether --out replaces an earlier report
  bool dry_run = false, json = false, markdown = false;
  bool self = false, controls = false;  // of bench: measures tidemark; controls too
  std::vector<std::string> library;     // of bench: the flags of Google Benchmark
  std::string note;                     // what choose_device() has to say
  std::function<int()> act;  // what a command on files does (files.h); it needs no device
};

/// Throws UsageError. `exit_code` is 0 or more where the line was answered already (help, version).
Options parse_options(int argc, char** argv, int& exit_code);

}  // namespace tidemark
