// A run with each trial as a job of a batch system (--executor): the jobs are submitted, awaited
// and gathered.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/cli/options.h"
#include "harness/record/record.h"
#include "harness/run/plan.h"

namespace tidemark {

/// The variable of a job: "INDEX FOLDER", the one trial of the plan that it runs, and where to.
inline constexpr const char* kJob = "TIDEMARK_JOB";

/// In a job: sets options.only and the folder, and takes out what is the submitting process's part.
void take_job(Options& options);

/// Submits a job for each trial that fits, each on `ranks` processors, waits for them, and writes
/// one report of all into `folder`. If a job left no report, its trial counts as not run, with the
/// reason.
/// The files of the jobs are in `folder`/jobs until all of them have ended well. Returns the run's
/// exit code. Throws UsageError or Unavailable where no job can be submitted, or where the jobs
/// found different installations of tidemark.
int run_as_jobs(const Options& options, const std::vector<PlannedTrial>& planned, int ranks,
                const std::filesystem::path& folder, RunRecord run);

}  // namespace tidemark
