// The commands. All return the process's exit code.
#pragma once

#include <string>

#include "harness/cli/options.h"
#include "harness/record/record.h"

namespace tidemark {

std::string version_text();
std::string host_name();
/// Environment variable with the run's id, from the process that the user started to its ranks.
inline constexpr const char* kRunId = "TIDEMARK_RUN_ID";

/// Facts of the run: user, program, machine; all of them end in the report's object `run`.
RunRecord describe_run(int argc, char** argv);

int list_command(const Options& options);
/// The process that the user started: checks the request, chooses the output folder, starts the
/// ranks.
int run_command(Options& options, int argc, char** argv);
/// One rank of it.
int rank_command(const Options& options, int argc, char** argv);
/// Google Benchmark's front end; alone, or on every rank of a launcher.
int bench_command(Options& options);

}  // namespace tidemark
