// The sentence of a comparison of curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/record/units.h"
#include "reports/curves/parity.h"

namespace tidemark {
namespace {

/// "0.0025 +- 0.0002": the error with two digits at most, the mean with as many places.
std::string with_error(double mean, double error) {
  const double size = std::abs(mean);
  int digits = 4;
  if (size > 0 && error > 0)
    digits = static_cast<int>(std::floor(std::log10(size)) - std::floor(std::log10(error))) + 2;
  return fmt::format("{:.{}g} +- {:.2g}", size, std::clamp(digits, 1, 4), error);
}

const char* side_of(double mean) { return mean < 0 ? "below" : "above"; }

std::string of_stretch(const Stretch& s) {
  const std::string where = s.to_end ? fmt::format("from step {} on", s.from)
                                     : fmt::format("from step {} to step {}", s.from, s.to);
  return fmt::format("B is {} A by {} {}: not noise", side_of(s.mean), with_error(s.mean, s.error),
                     where);
}

std::string of_spikes(const std::vector<Spike>& spikes) {
  const auto& largest =
      *std::ranges::max_element(spikes, {}, [](const Spike& one) { return one.times; });
  const std::string furthest =
      fmt::format("{} A by {:.3g}, {:.3g} times the noise near it", side_of(largest.difference),
                  std::abs(largest.difference), largest.times);
  if (spikes.size() == 1)
    return fmt::format("B is {} at step {} alone: not noise", furthest, largest.step);
  return fmt::format(
      "B leaves A at {} single steps, first at step {}; it is {} at step {}: not noise",
      spikes.size(), spikes.front().step, furthest, largest.step);
}

std::string of_no_numbers(const CurveParity& c) {
  const auto& d = c.first;
  if (!d || (std::isfinite(d->a) && std::isfinite(d->b)))
    return fmt::format("neither curve is a number from step {} on: both have diverged", *c.lost);
  const bool a = std::isfinite(d->a), b = std::isfinite(d->b);
  if (!a && !b) return fmt::format("A and B are different infinities at step {}", d->step);
  return fmt::format("{} is no number at step {} ({}) where {} is {:.6g}{}: {} has diverged",
                     a ? "B" : "A", d->step, a ? d->b : d->a, a ? "A" : "B", a ? d->a : d->b,
                     c.lost ? fmt::format(", and neither is one from step {} on", *c.lost) : "",
                     a ? "B" : "A");
}

}  // namespace

std::string verdict_text(const CurveParity& c, const ParityRule& rule) {
  const bool no_numbers =
      c.lost || (c.first && !(std::isfinite(c.first->a) && std::isfinite(c.first->b)));
  std::string before;
  if (c.noise && c.noise->stretch) {
    before = of_stretch(*c.noise->stretch);
    if (!c.noise->spikes.empty())
      before += fmt::format("; outside of these, {} single steps differ, the first is {}",
                            c.noise->spikes.size(), c.noise->spikes.front().step);
  } else if (c.noise && !c.noise->spikes.empty()) {
    before = of_spikes(c.noise->spikes);
  }
  if (no_numbers) return before + (before.empty() ? "" : "; ") + of_no_numbers(c);
  if (!before.empty()) return before;
  if (c.different == 0)
    return fmt::format("B is A bit for bit at {}", plural(c.compared, "common step"));
  if (rule.mode != ParityMode::noise)
    return c.diverged == 0 ? "B is A within the rule" : "B is not A within the rule";
  if (!c.noise)
    return fmt::format(
        "B has other bits than A from step {} on; {} common steps are too few to know the noise, "
        "which {} show",
        *c.bits_apart, c.compared - c.missing_in_runs, kJudgedSteps);
  return fmt::format("B is A but for noise: on average it is {} A by {}", side_of(c.noise->mean),
                     with_error(c.noise->mean, c.noise->error));
}

std::vector<std::string> noise_text(const NoiseVerdict& n) {
  const std::string source =
      n.runs > 1 ? fmt::format("noise: {:.3g} a step (median), from {} runs of A", n.noise, n.runs)
                 : fmt::format(
                       "noise: {:.3g} a step (median), from how B - A changes from step to step; a "
                       "difference that lasts for more than {} steps is none (--noise: other runs)",
                       n.noise, std::max<std::size_t>(n.steps / 16, 1));
  const std::string stretch =
      n.stretch ? fmt::format("; it is {:.3g} standard errors from 0, and {:.3g} are needed",
                              n.stretch->times, n.stretch->needed)
                : "";
  return {
      source,
      fmt::format("threshold: once in {:.0f} comparisons equal trainings differ, half of them by "
                  "a stretch of the {} windows, whose means have {:.2g} times the variance of "
                  "independent steps{}; half by a step of {:.3g} times the noise",
                  1 / kFalseAlarm, n.windows.size(), n.inflation, stretch, n.spike_times)};
}

}  // namespace tidemark
