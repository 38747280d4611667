// Runs one trial: every variant of a scenario on every rank, one after the other in the same
// processes, each from a clean device; judges; and gathers everything on rank 0.
#pragma once

#include <functional>
#include <string>

#include "harness/record.h"
#include "harness/scenario.h"
#include "harness/world.h"

namespace tidemark {

/// How a record travels between ranks (the reports know how to write one).
struct Codec {
  std::function<std::string(const TrialRecord&)> pack;
  std::function<TrialRecord(const std::string&)> unpack;
};

struct RunOptions {
  std::function<bool(const Variant&)> selected;      // null: all variants
  std::function<void(const std::string&)> progress;  // what runs now; rank 0 only
  std::vector<double>
      run_ahead;  // calibrated only: device time of a launch / host time of a launch, one peak each
};

/// Every variant starts from the same device: nothing allocated, nothing cached, time 0, the same
/// random numbers. Throws std::logic_error where something of before is still alive.
void prepare_device(const Trial& trial);

/// The whole record on rank 0, this rank's part elsewhere. Exceptions of a program (out of memory,
/// a failed collective) are not caught here: the other ranks may be waiting, and only the process's
/// border can end them.
TrialRecord run_trial(const Scenario& scenario, const Trial& trial, World& world,
                      const Codec& codec, const RunOptions& options = {});

}  // namespace tidemark
