#include "reports/program/rank_peaks.h"

#include <algorithm>
#include <map>

namespace tidemark {
namespace {

using StepPhase = std::pair<std::string, std::int64_t>;

/// The phases of all pictures; `steps`: told apart by their steps.
std::vector<StepPhase> phases_of(const std::vector<const MemoryPicture*>& pictures, bool steps) {
  std::map<StepPhase, std::size_t> places;  // of the first that has it
  std::vector<StepPhase> out;
  for (const MemoryPicture* picture : pictures)
    for (const PhasePeak& one : picture->phase_peaks)
      if (places.try_emplace({one.name, steps ? one.step : 0}, out.size()).second)
        out.emplace_back(one.name, steps ? one.step : 0);
  std::ranges::stable_sort(out, {}, &StepPhase::second);
  return out;
}

}  // namespace

RankPeaks rank_peaks(const std::vector<const MemoryPicture*>& pictures, std::size_t most) {
  RankPeaks out;
  out.phases = phases_of(pictures, true);
  const bool steps = out.phases.size() <= most;
  if (!steps) out.phases = phases_of(pictures, false);
  out.phases.resize(std::min(out.phases.size(), most));
  for (const MemoryPicture* picture : pictures) {
    std::map<StepPhase, std::int64_t> highest;
    for (const PhasePeak& one : picture->phase_peaks) {
      std::int64_t& level = highest[{one.name, steps ? one.step : 0}];
      level = std::max(level, one.peak.active);
    }
    auto& row = out.peaks.emplace_back();
    for (const StepPhase& phase : out.phases) {
      const auto level = highest.find(phase);
      row.push_back(level == highest.end() ? std::nullopt : std::optional(level->second));
    }
  }
  return out;
}

}  // namespace tidemark
