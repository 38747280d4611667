// Pairs of trials, variants and verdicts that are the same in two reports.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// "steps=4 seed=0 hidden=64 layers=4": what tells apart trials of one name.
std::string settings_of(const TrialRecord& trial);

struct TrialPair {
  std::string name;
  const TrialRecord* base;
  const TrialRecord* fresh;
};

struct Pairs {
  std::vector<TrialPair> trials;
  std::vector<std::string> missing, fresh;  // names of the trials in one report only
};

/// Two trials are the same where everything that was asked for is: size, world, mode, schedule,
/// steps, seed and parameters. Among equals the first goes with the first.
Pairs pair_trials(const Report& base, const Report& fresh);

/// Differences in the settings of two runs: arguments, environment, device, versions.
std::vector<std::string> differences(const RunRecord& base, const RunRecord& fresh);

}  // namespace tidemark
