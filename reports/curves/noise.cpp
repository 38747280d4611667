#include "reports/curves/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "reports/curves/noise_scale.h"
#include "reports/curves/student.h"

namespace tidemark {
namespace {

constexpr std::size_t kWindows = 64, kGroups = 16;
constexpr double kClip = 8;  // noises: what is further is for the test of single steps
// Rounding may shift a median of differences by half a resolution, and the deviation that is
// derived from it (noise_scale.cpp) by so many resolutions.
constexpr double kHidden = 0.5 / (0.6745 * 1.4142);
constexpr double kOfStretches = kFalseAlarm / 2, kOfSpikes = kFalseAlarm / 2;

/// Differences in units of the noise, and their sums over windows.
struct Scaled {
  std::vector<double> noise, by;    // by: b - a over the noise
  std::vector<double> alone;        // the same for the test of single steps
  std::vector<std::size_t> bounds;  // of the windows: one more than there are
  std::vector<double> sums, shifts, lengths;
  std::vector<std::vector<double>> run_sums;  // of each run of A about their mean

  std::size_t windows() const { return sums.size(); }
};

double clipped(double value) { return std::clamp(value, -kClip, kClip); }

Scaled scaled(const CommonSteps& c) {
  Scaled out;
  const std::size_t n = c.a.size();
  std::vector<double> by(n);
  for (std::size_t t = 0; t < n; ++t) by[t] = c.b[t] - c.a[t];
  const bool several = c.runs.size() > 1;
  out.noise = several ? run_noise(c.runs, c.a) : step_noise(by);
  const std::vector<double> of_a = step_noise(c.a);
  out.alone.resize(n);
  const std::size_t windows = std::min(kWindows, n);
  for (std::size_t k = 0; k <= windows; ++k) out.bounds.push_back(k * n / windows);
  out.sums.resize(windows), out.shifts.resize(windows), out.lengths.resize(windows);
  out.run_sums.assign(several ? c.runs.size() : 0, std::vector<double>(windows));
  for (std::size_t k = 0; k < windows; ++k) {
    for (std::size_t t = out.bounds[k]; t < out.bounds[k + 1]; ++t) {
      // Rounding hides as much as kHidden, and adds a variance of resolution^2 / 12 for each log.
      const double seen = out.noise[t], rounding = c.resolution[t] / std::sqrt(6.0);
      const double noise = std::hypot(seen + kHidden * c.resolution[t], rounding);
      // Steps with equal bits around it say nothing of how far a step may lie: A's own steps do.
      const double own = seen > 0 ? noise : std::max(noise, of_a[t]);
      out.noise[t] = std::max(noise, std::numeric_limits<double>::min());
      out.alone[t] = by[t] / std::max(own, std::numeric_limits<double>::min());
      by[t] /= out.noise[t];
      out.sums[k] += clipped(by[t]);
      out.shifts[k] += rounding_shift(c.resolution[t], of_a[t]) / out.noise[t];
      for (std::size_t i = 0; i < out.run_sums.size(); ++i)
        out.run_sums[i][k] += clipped((c.runs[i][t] - c.a[t]) / out.noise[t]);
    }
    out.lengths[k] = static_cast<double>(out.bounds[k + 1] - out.bounds[k]);
  }
  out.by = std::move(by);
  return out;
}

/// One estimate of the noise of a mean of steps. Its variance is `of_step` over the number of
/// steps, known by `freedom` degrees. An offset that lasts for a whole run adds the deviation
/// `lasting`; `lasting_needed` is its quantile.
struct Estimate {
  double of_step = 1, freedom = 1;
  double lasting = 0, lasting_needed = 0;
  double inflation = 1;         // of the variance, over that of independent steps
  std::vector<double> squares;  // sums over pairs of neighbouring groups, from the first on
  std::size_t group = 0;        // windows; 0: it is of runs

  double error(double steps) const { return std::sqrt(of_step / steps + lasting * lasting); }
  double needed(double quantile, double steps) const {
    return quantile * std::sqrt(of_step / steps) + lasting_needed * lasting;
  }
};

std::vector<double> prefix(const std::vector<double>& of) {
  std::vector<double> out(of.size() + 1);
  for (std::size_t i = 0; i < of.size(); ++i) out[i + 1] = out[i] + of[i];
  return out;
}

/// From how much the means of neighbouring groups of `group` windows differ: twice the variance of
/// one of them, what is correlated within a group included.
Estimate of_neighbours(const Scaled& s, std::size_t group) {
  const auto sums = prefix(s.sums), lengths = prefix(s.lengths);
  const std::size_t windows = s.windows();
  std::vector<double> squares{0.0};
  for (std::size_t k = 0; k + 2 * group <= windows; ++k) {
    const double l = lengths[k + group] - lengths[k],
                 m = lengths[k + 2 * group] - lengths[k + group];
    const double apart =
        (sums[k + 2 * group] - sums[k + group]) / m - (sums[k + group] - sums[k]) / l;
    squares.push_back(squares.back() + apart * apart / (1 / l + 1 / m));
  }
  // A step varies at least by its own noise: a log whose differences are mostly none has one, too.
  const double of_step = std::max(1.0, squares.back() / static_cast<double>(squares.size() - 1));
  const double groups = static_cast<double>(windows) / static_cast<double>(group);
  return {of_step, 2.0 / 3 * (groups - 1), 0, 0, of_step, std::move(squares), group};
}

/// The estimate without the pairs that lie across an edge of the windows from `from` to `to`, or a
/// window beside it: a difference of this stretch alone is none of its noise.
Estimate beside(const Estimate& all, std::size_t from, std::size_t to, std::size_t windows) {
  if (all.group == 0) return all;
  const std::size_t pairs = all.squares.size() - 1, reach = 2 * all.group;
  double total = all.squares.back();
  std::size_t left = pairs, counted = 0;  // counted: the end of those left out
  for (const std::size_t edge : {from, to}) {
    if (edge == 0 || edge == windows) continue;
    const std::size_t begin = std::max(counted, edge - std::min(edge, reach)),
                      end = std::max(begin, std::min(pairs, edge + 1));
    total -= all.squares[end] - all.squares[begin];
    left -= end - begin;
    counted = end;
  }
  Estimate out{1, all.freedom * static_cast<double>(left) / static_cast<double>(pairs)};
  if (left > 0) out.of_step = std::max(1.0, total / static_cast<double>(left));
  return out;
}

/// From several runs of A: how far windows lie from the mean of all runs, and by how much longer
/// stretches lie further from it than independent windows would.
Estimate of_runs(const Scaled& s) {
  const std::size_t windows = s.windows(), runs = s.run_sums.size();
  const double others = static_cast<double>(runs - 1);
  const auto lengths = prefix(s.lengths);
  std::vector<std::vector<double>> sums;
  for (const auto& run : s.run_sums) sums.push_back(prefix(run));
  Estimate out{1, others * static_cast<double>(windows), 0, 0, 1};
  double lasting = 0;  // a variance
  for (std::size_t l = 1; l <= windows; ++l) {
    double total = 0;
    for (std::size_t k = 0; k + l <= windows; ++k)
      for (const auto& run : sums)
        total += (run[k + l] - run[k]) * (run[k + l] - run[k]) / (lengths[k + l] - lengths[k]);
    const double of_step = total / others / static_cast<double>(windows - l + 1);
    if (l == 1) out.of_step = std::max(1.0, of_step);
    const double steps = lengths.back() * static_cast<double>(l) / static_cast<double>(windows);
    lasting = std::max(lasting, (of_step - out.of_step) / steps);
    out.inflation = std::max(out.inflation, of_step);
  }
  const double beside = 1 + 1 / static_cast<double>(runs);  // B, and the mean of the runs
  out.of_step *= beside;
  out.lasting = std::sqrt(lasting * beside);
  out.lasting_needed = student_quantile(kOfStretches / 2, others);
  return out;
}

struct Found {
  std::size_t from = 0, to = 0;  // windows, `to` excluded
  double excess = 0, sign = 1;   // over what is needed
  double times = 0, needed = 0;
};

/// How far means of stretches of windows may lie from zero. Half of the false alarms are those of
/// stretches that reach to the end, half of all others; of several runs as many as both are those
/// of what lasts in a run.
class Quantiles {
 public:
  explicit Quantiles(std::size_t windows) : windows_(static_cast<double>(windows)) {}

  double operator()(const Estimate& estimate, bool ends) {
    if (estimate.freedom < 1) return std::numeric_limits<double>::infinity();
    const double of_all = estimate.lasting_needed > 0 ? kOfStretches / 2 : kOfStretches;
    const auto [at, fresh] = known_.try_emplace({ends, estimate.freedom}, 0.0);
    if (fresh)
      at->second = student_quantile(
          of_all / 2 / (ends ? windows_ : std::max(1.0, windows_ * (windows_ - 1) / 2)),
          estimate.freedom);
    return at->second;
  }

 private:
  double windows_;
  std::map<std::pair<bool, double>, double> known_;
};

/// The stretch of windows that is the furthest beyond its threshold.
Found furthest(const Scaled& s, const std::vector<Estimate>& estimates, Quantiles& quantiles) {
  const auto sums = prefix(s.sums), lengths = prefix(s.lengths), shifts = prefix(s.shifts);
  const std::size_t windows = s.windows();
  Found best;
  for (std::size_t i = 0; i < windows; ++i)
    for (std::size_t j = i + 1; j <= windows; ++j) {
      const double sum = sums[j] - sums[i], steps = lengths[j] - lengths[i];
      const double mean = std::max(0.0, std::abs(sum) - (shifts[j] - shifts[i])) / steps;
      Found one{i, j, std::numeric_limits<double>::infinity(), sum < 0 ? -1.0 : 1.0, 0, 0};
      for (const Estimate& each : estimates) {
        const Estimate by = beside(each, i, j, windows);
        const double need = by.needed(quantiles(by, j == windows), steps);
        if (mean / need >= one.excess) continue;
        one.excess = mean / need;
        one.times = mean / by.error(steps), one.needed = need / by.error(steps);
      }
      if (one.excess > best.excess) best = one;
    }
  return best;
}

/// The first step from which the sum up to `end` is the furthest from what chance makes of so many;
/// with `backwards` the last step, likewise.
std::size_t sharpest(const std::vector<double>& by, std::size_t begin, std::size_t end, double sign,
                     bool backwards) {
  double sum = 0, best = -1;
  std::size_t at = backwards ? end - 1 : begin;
  for (std::size_t k = 1; k <= end - begin; ++k) {
    const std::size_t t = backwards ? begin + k - 1 : end - k;
    sum += sign * clipped(by[t]);
    const double score = sum <= 0 ? 0 : sum / std::sqrt(static_cast<double>(k));
    if (score > best) best = score, at = t;
  }
  return at;
}

/// Mean of b - a over steps, weighted by one over the noise, and its standard error.
std::pair<double, double> mean_of(const Scaled& s, std::size_t from, std::size_t to,
                                  const std::vector<Estimate>& estimates) {
  double sum = 0, weight = 0, error = 0;
  for (std::size_t t = from; t < to; ++t) sum += s.by[t], weight += 1 / s.noise[t];
  const double steps = static_cast<double>(to - from);
  for (const Estimate& each : estimates) error = std::max(error, each.error(steps));
  return {sum / weight, error * steps / weight};
}

/// The difference, in noises, that a step of an equal training exceeds once in 1 / kOfSpikes
/// comparisons. The tail of all steps is taken to fall at least exponentially. The outermost steps
/// are left out of it, because they may be the spikes.
double spike_limit(const std::vector<double>& by) {
  const double n = static_cast<double>(by.size());
  const double normal = normal_quantile(kOfSpikes / n);
  std::vector<double> sizes(by.size());
  std::ranges::transform(by, sizes.begin(), [](double one) { return std::abs(one); });
  const std::size_t outer =
                        std::min(sizes.size() / 2, std::max<std::size_t>(16, sizes.size() / 16)),
                    outermost = outer / 4;
  const auto at = [&](std::size_t rank) { return static_cast<std::ptrdiff_t>(rank); };
  std::partial_sort(sizes.begin(), sizes.begin() + at(outer + 1), sizes.end(), std::greater<>());
  const double edge = sizes[outer];
  double scale = static_cast<double>(outermost) * (sizes[outermost] - edge);
  for (std::size_t i = outermost; i < outer; ++i) scale += sizes[i] - edge;
  const double counted = static_cast<double>(outer - outermost);
  scale *= (1 + 3 / std::sqrt(counted)) / counted;  // three standard errors of its own
  return std::max(normal, edge + scale * std::log(static_cast<double>(outer) / kOfSpikes));
}

}  // namespace

std::optional<std::int64_t> NoiseVerdict::first() const {
  std::optional<std::int64_t> out;
  if (stretch) out = stretch->from;
  if (!spikes.empty() && (!out || spikes.front().step < *out)) out = spikes.front().step;
  return out;
}

NoiseVerdict judge_noise(const CommonSteps& c, bool keep_band) {
  const Scaled s = scaled(c);
  const std::size_t n = c.a.size(), windows = s.windows();
  std::vector<Estimate> estimates;
  if (c.runs.size() > 1)
    estimates.push_back(of_runs(s));
  else
    for (std::size_t group = 1; group == 1 || windows / group >= kGroups; group *= 2)
      estimates.push_back(of_neighbours(s, group));

  NoiseVerdict out;
  out.steps = n, out.runs = c.runs.size(), out.window = n / windows;
  for (const Estimate& each : estimates) out.inflation = std::max(out.inflation, each.inflation);
  std::tie(out.mean, out.error) = mean_of(s, 0, n, estimates);
  {
    std::vector<double> sorted = s.noise;
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(n / 2));
    out.noise = sorted[n / 2];
  }

  Quantiles quantiles(windows);
  const Found found = furthest(s, estimates, quantiles);
  std::size_t from = n, to = n;
  if (found.excess > 1) {
    to = s.bounds[found.to];
    from = sharpest(s.by, 0, to, found.sign, false);
    if (found.to < windows) to = sharpest(s.by, from, n, found.sign, true) + 1;
    std::vector<Estimate> others;
    for (const Estimate& each : estimates)
      others.push_back(beside(each, found.from, found.to, windows));
    const auto [mean, error] = mean_of(s, from, to, others);
    out.stretch = {c.steps[from], c.steps[to - 1], to == n, mean, error, found.times, found.needed};
  }
  out.spike_times = spike_limit(s.alone);
  for (std::size_t t = 0; t < n; ++t)
    if ((t < from || t >= to) && std::abs(s.alone[t]) > out.spike_times)
      out.spikes.push_back({c.steps[t], c.b[t] - c.a[t], std::abs(s.alone[t])});

  for (std::size_t k = 0; k < windows; ++k) {
    const auto [mean, error] = mean_of(s, s.bounds[k], s.bounds[k + 1], estimates);
    double needed = 0;
    for (const Estimate& each : estimates)
      needed = std::max(needed, each.needed(quantiles(each, false), s.lengths[k]));
    double weight = 0;
    for (std::size_t t = s.bounds[k]; t < s.bounds[k + 1]; ++t) weight += 1 / s.noise[t];
    out.windows.push_back({c.steps[s.bounds[k]], c.steps[s.bounds[k + 1] - 1], mean, error,
                           (needed * s.lengths[k] + s.shifts[k]) / weight});
  }
  if (keep_band) out.band.reserve(n);
  for (std::size_t t = 0; keep_band && t < n; ++t) {
    const double reach = s.noise[t] * out.spike_times;
    out.band.push_back({c.steps[t], c.a[t] - reach, c.a[t] + reach});
  }
  return out;
}

}  // namespace tidemark
