// The plan: the list of trials that a request selects. Everything that can be wrong with the
// request is found here, before any process is started or any file written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/errors.h"
#include "harness/scenario.h"

namespace tidemark {

struct Request {
  std::vector<std::string> patterns;  // scenario[/variant[/size]] globs; none = everything
  std::string suite = "smoke";        // smoke, nightly, scale; --size overrides
  std::string size, mode;
  std::string schedule;          // empty: all; a suite may take fewer for what is large
  std::vector<std::string> set;  // KEY=VALUE
  int ranks = 0, steps = 0;      // 0: the world found (4 where none is), the suite's steps
  std::uint64_t seed = 0;
};

struct PlannedTrial {
  const Scenario* scenario = nullptr;
  Trial trial;
  std::vector<std::string>
      variants;        // by name, in the scenario's order; the baseline is always among them
  bool slow = false;   // the size's
  std::string unfit;   // why it cannot run with these ranks, or empty
  Bytes capacity = 0;  // of each virtual GPU that it runs on; 0: as the platform has them
  std::optional<Bytes> needs = {};  // what the closed forms say it reserves (TrialRecord::needs)
};

/// `schedules`: what the platform offers ("instant", "calibrated", "lagging", or "device" for a
/// real GPU).
std::vector<PlannedTrial> plan(const Request& request, const std::vector<Scenario>& scenarios,
                               const std::vector<std::string>& schedules);

}  // namespace tidemark
