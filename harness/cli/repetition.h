// Repeated runs of a trial: on the virtual device they must leave the same record, on a GPU they
// give step times.
#pragma once

#include "harness/ranks/world.h"
#include "harness/run/plan.h"
#include "harness/run/runner.h"

namespace tidemark {

/// Runs the trial `repetitions` times and returns the record of the first run. On the virtual
/// device it has a verdict parity/repetition for each further run, on a GPU the step times of all
/// (timing.h); a GPU under a schedule that does not keep its time runs once. To be called by all
/// ranks.
TrialRecord run_repeated(const PlannedTrial& planned, World& world, int repetitions,
                         const RunOptions& options);

}  // namespace tidemark
