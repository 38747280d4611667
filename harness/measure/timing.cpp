#include "harness/measure/timing.h"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace {

Ns whole(double ns) { return static_cast<Ns>(std::llround(ns)); }

std::vector<double> without_warm_up(const std::vector<Ns>& times) {
  if (times.size() < 2) return {};
  return {times.begin() + 1, times.end()};
}

/// Quantile `part` (from 0 to 1) of `values`, which must not be empty; interpolated between two
/// values.
double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const double place = part * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace

StepTimes step_times(const TrialRecord& trial) {
  StepTimes all;
  for (const auto& variant : trial.variants) all.push_back(variant.step_time_ns);
  return all;
}

void add_timing(TrialRecord& trial, const std::vector<StepTimes>& repetitions) {
  const auto baseline = std::ranges::find(trial.variants, Role::baseline, &VariantRecord::role) -
                        trial.variants.begin();
  for (std::size_t v = 0; v < trial.variants.size(); ++v) {
    std::vector<double> all, ratios;
    for (const StepTimes& times : repetitions) {
      const auto mine = without_warm_up(times.at(v));
      all.insert(all.end(), mine.begin(), mine.end());
      if (baseline == std::ssize(trial.variants)) continue;
      const auto base = without_warm_up(times.at(static_cast<std::size_t>(baseline)));
      if (mine.empty() || base.empty() || quantile(base, 0.5) <= 0) continue;
      ratios.push_back(quantile(mine, 0.5) / quantile(base, 0.5));
    }
    if (all.empty()) continue;
    Timing timing;
    timing.repetitions = static_cast<int>(repetitions.size());
    timing.samples = static_cast<int>(all.size());
    timing.median = whole(quantile(all, 0.5));
    timing.low = whole(quantile(all, 0.25));
    timing.high = whole(quantile(all, 0.75));
    if (!ratios.empty())
      timing.ratio = {quantile(ratios, 0.5), quantile(ratios, 0), quantile(ratios, 1)};
    trial.variants[v].timing = timing;
  }
}

}  // namespace tidemark
