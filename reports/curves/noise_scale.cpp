#include "reports/curves/noise_scale.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tidemark {
namespace {

constexpr std::size_t kReach = 32;  // steps
// A median of |x_{t+1} - x_t| is 0.6745 * sqrt(2) standard deviations of a normal x.
const double kOfMedian = 1 / (0.6744897501960817 * std::numbers::sqrt2);

std::size_t reach_of(std::size_t values) { return std::clamp<std::size_t>(values / 4, 1, kReach); }

/// The larger of what the `reach` figures before a place give and those from it on.
std::vector<double> larger_side(const std::vector<double>& of_reach, std::size_t reach,
                                std::size_t values) {
  std::vector<double> out(values);
  for (std::size_t t = 0; t < values; ++t) {
    double most = 0;
    if (t >= reach) most = of_reach[std::min(t - reach, of_reach.size() - 1)];
    if (t < of_reach.size()) most = std::max(most, of_reach[t]);
    out[t] = most;
  }
  return out;
}

/// Medians of all stretches of `reach` values.
std::vector<double> medians(const std::vector<double>& values, std::size_t reach) {
  std::vector<double> sorted(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(reach));
  std::ranges::sort(sorted);
  std::vector<double> out;
  out.reserve(values.size() - reach + 1);
  for (std::size_t i = reach;; ++i) {
    out.push_back((sorted[(reach - 1) / 2] + sorted[reach / 2]) / 2);
    if (i == values.size()) return out;
    sorted.erase(std::ranges::lower_bound(sorted, values[i - reach]));
    sorted.insert(std::ranges::upper_bound(sorted, values[i]), values[i]);
  }
}

}  // namespace

std::vector<double> step_noise(const std::vector<double>& values) {
  std::vector<double> by(values.size() - 1);
  for (std::size_t i = 0; i < by.size(); ++i) by[i] = std::abs(values[i + 1] - values[i]);
  const std::size_t reach = reach_of(by.size());
  std::vector<double> of_reach = medians(by, reach);
  for (double& one : of_reach) one *= kOfMedian;
  return larger_side(of_reach, reach, values.size());
}

std::vector<double> run_noise(const std::vector<std::vector<double>>& runs,
                              const std::vector<double>& mean) {
  const std::size_t values = mean.size(), reach = reach_of(values);
  std::vector<double> sums(values + 1);
  for (std::size_t t = 0; t < values; ++t) {
    double squares = 0;
    for (const auto& run : runs) squares += (run[t] - mean[t]) * (run[t] - mean[t]);
    sums[t + 1] = sums[t] + squares / static_cast<double>(runs.size() - 1);
  }
  std::vector<double> of_reach(values - reach + 1);
  for (std::size_t i = 0; i < of_reach.size(); ++i)
    of_reach[i] = std::sqrt((sums[i + reach] - sums[i]) / static_cast<double>(reach));
  return larger_side(of_reach, reach, values);
}

double rounding_shift(double resolution, double noise) {
  if (resolution <= 0) return 0;
  const double of = std::numbers::pi * noise / resolution;
  return 2 * resolution / std::numbers::pi * std::exp(-2 * of * of);
}

}  // namespace tidemark
