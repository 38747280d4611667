// Results of plans, computed once in a process and kept: the launcher, the judge and the curves ask
// for the same ones again and again.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>

#include "cases/device_facts.h"
#include "harness/scenario.h"

namespace tidemark {

/// By trial, variant and rank on the current device.
template <class Result>
class Kept {
 public:
  /// Returns the kept result for these, or that of `compute`. `variant` may be a name that several
  /// variants share; a schedule that does not matter is left out of `trial`. The result is valid
  /// until the next call.
  template <class Compute>
  const Result& of(const Trial& trial, const std::string& variant, int rank, Compute&& compute) {
    if (reference::Allocator::fault != nullptr) return wrong_ = compute();  // never kept
    if (results_.size() > kMost) results_.clear();
    const auto d = current_device_facts();
    const Facts facts{d.workspace_bytes,  d.processors,     d.threads_per_processor, d.capability,
                      d.shared_per_block, d.placement.rule, d.placement.low};
    const Key key{trial.params, trial.schedule, trial.ranks, trial.steps, variant, rank, facts};
    const auto result = results_.find(key);
    return result != results_.end() ? result->second
                                    : results_.emplace(key, compute()).first->second;
  }

 private:
  static constexpr std::size_t kMost = 2048;
  using Facts = std::array<std::int64_t, 7>;
  using Key = std::tuple<Params, std::string, int, int, std::string, int, Facts>;
  std::map<Key, Result> results_;
  Result wrong_;
};

}  // namespace tidemark
