// Pairs of trials, variants and verdicts that are the same in two reports.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// Pairs the items of two lists that have the same key; of several the first goes with the first.
/// Calls in the order of `before` both(a, b) or, for what has no partner, gone(a); then, in the
/// order of `after`, come(b) for what is left of it.
template <class T>
void pair_items(const std::vector<T>& before, const std::vector<T>& after, auto key, auto both,
                auto gone, auto come) {
  using Result = decltype(std::invoke(key, after.front()));
  using Key = std::conditional_t<std::is_same_v<Result, const std::string&>, std::string_view,
                                 std::decay_t<Result>>;  // an item's own text need not be copied
  std::multimap<Key, const T*> left;
  for (const T& b : after) left.emplace(std::invoke(key, b), &b);
  std::set<const T*> met;
  for (const T& a : before) {
    const auto partner = left.find(std::invoke(key, a));
    if (partner == left.end()) {
      gone(a);
      continue;
    }
    met.insert(partner->second);
    both(a, *partner->second);
    left.erase(partner);
  }
  for (const T& b : after)
    if (!met.contains(&b)) come(b);
}

/// The trials that are of programs, or those that are not.
std::vector<const TrialRecord*> trials_of(const Report& report, bool programs);

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
