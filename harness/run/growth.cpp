#include "harness/run/growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/judge/counts.h"
#include "harness/judge/judge.h"

namespace tidemark {
namespace {

constexpr int kMostSteps = 4;  // that are taken again at both ends; of more, the first two

constexpr std::array kDrawn{std::pair{Statistic::allocated, &Peaks::allocated},
                            std::pair{Statistic::active, &Peaks::active},
                            std::pair{Statistic::reserved, &Peaks::reserved}};

void raise(std::optional<Bytes>& highest, double bytes) {
  highest = std::max<Bytes>(highest.value_or(0), std::llround(bytes));
}

std::set<std::int64_t> values_around(std::int64_t own, const Parameter& parameter) {
  std::set<std::int64_t> values;
  for (int quarter = -4; quarter <= 4; ++quarter)
    values.insert(
        std::clamp<std::int64_t>(std::llround(static_cast<double>(own) * std::exp2(quarter / 4.0)),
                                 parameter.low, parameter.high));
  return values;
}

// The highest of what is expected of each that `drawn` has.
Peaks predicted(const std::vector<Expectation>& forms, const Peaks& drawn) {
  Peaks peaks;
  for (const auto& form : forms) {
    if (form.at_end || form.slack > 0) continue;
    if (!form.moment.empty()) raise(peaks.resident, form.formula.evaluate());
    for (const auto& [statistic, peak] : kDrawn)
      if (form.moment.empty() && form.statistic == statistic && drawn.*peak)
        raise(peaks.*peak, form.formula.evaluate());
  }
  return peaks;
}

// If no closed form says how much is reserved, twice the known bytes.
bool fits(const Peaks& peaks, Bytes capacity) {
  if (peaks.reserved) return *peaks.reserved <= capacity;
  const auto least = std::max(peaks.allocated, peaks.resident);  // none is the lowest
  return least && *least <= capacity / 2;
}

struct Check {
  std::string at;  // which values
  int broken = 0;
  std::string first;  // that is broken, and where

  void add(std::int64_t value, const std::vector<Expectation>& forms, const RankRecord& record) {
    at += (at.empty() ? "" : ", ") + std::to_string(value);
    for (const auto& form : forms) {
      const double expected = form.formula.evaluate(), actual = measured(record, form);
      if (actual >= expected && actual <= expected + static_cast<double>(form.slack)) continue;
      if (broken++ == 0)
        first = fmt::format("at {} {} is {:.0f} where {} is {:.0f}", value, verdict_name(form),
                            actual, form.formula.text, expected);
    }
  }

  Verdict verdict(const std::string& parameter, const std::string& variant, int rank) const {
    auto verdict = bounded("memory/growth/" + parameter, 0, 0, broken,
                           fmt::format("closed forms that do not hold at {} = {}", parameter, at));
    verdict.variant = variant;
    verdict.rank = rank;
    verdict.unit = "closed forms";
    verdict.why = first;
    return verdict;
  }
};

}  // namespace

Peaks measured_peaks(const RankRecord& record, const std::vector<Expectation>& forms) {
  Peaks peaks;
  for (const auto& form : forms)
    if (record.moment(form.moment) != nullptr) raise(peaks.resident, measured(record, form));
  for (const auto& [statistic, peak] : kDrawn) {
    const Bytes highest = record.peak(statistic);
    for (const auto& form : forms)
      if (form.moment.empty() && !form.at_end && form.statistic == statistic &&
          measured(record, form) == static_cast<double>(highest))
        peaks.*peak = highest;
  }
  return peaks;
}

GrowthResult grow(const Scenario& scenario, const Trial& trial, const Variant& variant,
                  const Parameter& parameter, const Origin& own, Bytes capacity,
                  const std::function<RankRecord(const Trial&)>& measure) {
  const std::int64_t here = trial[parameter.name];
  const auto at = [&](std::int64_t value) {
    Trial other = trial;
    other.mode = Mode::shapes;
    if (trial.steps > kMostSteps) other.steps = 2;
    other.params[parameter.name] = value;
    return other;
  };
  const auto forms = [&](const Trial& one) {
    return expectations(scenario, one, variant, own.rank);
  };
  GrowthResult grown{{parameter.name, own.rank, {}}, {}};
  auto& points = grown.curve.points;
  if (predicted(forms(at(here)), own.peaks) != predicted(forms(trial), own.peaks)) return grown;
  for (std::int64_t value : values_around(here, parameter)) {
    const Trial other = at(value);
    if (!why_unfit(scenario, other).empty()) continue;
    if (scenario.leave_out && !scenario.leave_out(other, variant).empty()) continue;
    points.push_back({value, predicted(forms(other), own.peaks), {}});
    if (value == here) points.back().measured = own.peaks;
  }
  const auto can = [&](const GrowthPoint& point) {
    return point.value == here || fits(point.predicted, capacity);
  };
  const auto low = std::ranges::find_if(points, can);
  const auto high = std::find_if(points.rbegin(), points.rend(), can);
  Check check;
  for (GrowthPoint* end : {&*low, &*high}) {  // the trial's own value is always among them
    if (end->value == here) continue;
    const Trial other = at(end->value);
    const auto expected = forms(other);
    const RankRecord record = measure(other);
    end->measured = measured_peaks(record, expected);
    check.add(end->value, expected, record);
  }
  if (check.at.empty())
    points.clear();
  else
    grown.verdict = check.verdict(parameter.name, variant.name, own.rank);
  return grown;
}

}  // namespace tidemark
