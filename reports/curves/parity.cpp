#include "reports/curves/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "harness/record/one_line.h"

namespace tidemark {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool holds(double a, double b, double ulps, const ParityRule& rule) {
  if (same(a, b)) return true;
  if (rule.mode == ParityMode::exact) return false;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  if (rule.mode == ParityMode::noise) return true;
  if (rule.mode == ParityMode::ulp) return ulps <= rule.ulp;
  return std::abs(b - a) <= rule.atol + rule.rtol * std::abs(a);
}

/// Steps that all curves have as numbers, collected in ascending order.
class Common {
 public:
  Common(const Curve& a, const Curve& b, const std::vector<const Curve*>& runs, Precision precision)
      : runs_(runs), at_(runs.size()), a_(digits_of(a)), b_(digits_of(b)), precision_(precision) {
    if (!runs.empty()) steps_.runs.resize(runs.size() + 1);
    const std::size_t most = std::min(a.points.size(), b.points.size());
    steps_.steps.reserve(most);
    for (std::vector<double>* each : {&steps_.a, &steps_.b, &steps_.resolution})
      each->reserve(most);
  }

  /// False where another run has no number at this step.
  bool add(const Divergence& d) {
    std::vector<double> all;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const auto& points = runs_[i]->points;
      while (at_[i] < points.size() && points[at_[i]].step < d.step) ++at_[i];
      if (at_[i] == points.size() || points[at_[i]].step != d.step) return false;
      all.push_back(rounded(points[at_[i]].value, precision_));
      if (!std::isfinite(all.back())) return false;
    }
    double a = d.a;
    if (!all.empty()) {
      for (std::size_t i = 0; i < all.size(); ++i)
        steps_.runs[i + 1].push_back(all[i]), a += all[i];
      steps_.runs[0].push_back(d.a);
      a /= static_cast<double>(all.size() + 1);
    }
    steps_.steps.push_back(d.step);
    steps_.a.push_back(a);
    steps_.b.push_back(d.b);
    steps_.resolution.push_back(
        std::max({ulp_at(d.a, precision_), a_.step_at(d.a), b_.step_at(d.b)}));
    return true;
  }
  const CommonSteps& steps() const { return steps_; }

 private:
  const std::vector<const Curve*>& runs_;
  std::vector<std::size_t> at_;
  Digits a_, b_;
  Precision precision_;
  CommonSteps steps_;
};

}  // namespace

std::string ParityRule::text() const {
  const std::string of = precision ? fmt::format(" ({})", name_of(*precision)) : "";
  if (mode == ParityMode::noise)
    return fmt::format(
        "equal but for noise; two equal trainings are told apart once in {:.0f} comparisons",
        1 / kFalseAlarm);
  if (mode == ParityMode::exact) return "the same bits" + of;
  if (mode == ParityMode::ulp) return fmt::format("at most {} ULP{}", ulp, of);
  return fmt::format("|b - a| <= {} + {} * |a|{}", atol, rtol, of);
}

Divergence compare_points(const CurvePoint& a, const CurvePoint& b, const ParityRule& rule) {
  Divergence out{a.step, rounded(a.value, *rule.precision), rounded(b.value, *rule.precision), 0, 0,
                 true};
  out.ulps = ulps_between(out.a, out.b, *rule.precision);
  out.holds = holds(out.a, out.b, out.ulps, rule);
  const double difference = std::abs(out.b - out.a);
  out.difference = out.ulps == 0 ? 0 : std::isnan(difference) ? kInfinite : difference;
  return out;
}

bool CurveParity::holds(const ParityRule& rule) const {
  if (diverged > 0 || lost) return false;
  if (!rule.common && !(missing_in_a.empty() && missing_in_b.empty())) return false;
  if (rule.mode != ParityMode::noise) return true;
  return noise ? !noise->differs() : different == 0;
}

std::optional<std::int64_t> CurveParity::first_step() const {
  std::optional<std::int64_t> out = noise ? noise->first() : bits_apart;
  if (first && (!out || !noise || first->step < *out)) out = first->step;
  if (lost && (!out || *lost < *out)) out = lost;
  return out;
}

CurveParity parity(const Curve& a, const Curve& b, const ParityRule& given, bool keep,
                   const std::vector<const Curve*>& runs) {
  CurveParity out;
  out.a = a.name, out.b = b.name;
  std::vector<const Curve*> all = runs;
  all.insert(all.end(), {&a, &b});
  ParityRule rule = given;
  if (!rule.precision) rule.precision = precision_of(all);
  out.precision = *rule.precision;
  const bool by_noise = rule.mode == ParityMode::noise;
  Common common(a, b, runs, *rule.precision);
  if (keep) out.steps.reserve(std::min(a.points.size(), b.points.size()));
  auto x = a.points.begin(), y = b.points.begin();
  while (x != a.points.end() || y != b.points.end()) {
    if (y == b.points.end() || (x != a.points.end() && x->step < y->step)) {
      out.missing_in_b.push_back(x++->step);
      continue;
    }
    if (x == a.points.end() || y->step < x->step) {
      out.missing_in_a.push_back(y++->step);
      continue;
    }
    const Divergence d = compare_points(*x++, *y++, rule);
    if (keep) out.steps.push_back(d);
    ++out.compared;
    out.not_a_number += std::isnan(d.a) && std::isnan(d.b);
    if (std::isfinite(d.a) || std::isfinite(d.b))
      out.lost.reset();
    else if (!out.lost)
      out.lost = d.step;
    if (by_noise && std::isfinite(d.a) && std::isfinite(d.b)) out.missing_in_runs += !common.add(d);
    if (!same(d.a, d.b)) {
      ++out.different;
      if (!out.bits_apart) out.bits_apart = d.step;
      if (!out.furthest || d.ulps > out.furthest->ulps) out.furthest = d;
    }
    if (d.holds) continue;
    ++out.diverged;
    if (!out.first) out.first = d;
    if (!out.largest || d.ulps > out.largest->ulps) out.largest = d;
  }
  if (by_noise && common.steps().steps.size() >= kJudgedSteps)
    out.noise = judge_noise(common.steps(), keep);
  return out;
}

std::string parity_title(const CurveParity& c) {
  return one_line(c.a == c.b ? c.a : c.a + " and " + c.b);
}

std::int64_t ParityReport::compared() const {
  std::int64_t out = 0;
  for (const CurveParity& c : curves) out += c.compared;
  return out;
}

int ParityReport::exit_code() const {
  if (compared() == 0) return 4;
  return std::ranges::all_of(curves, [&](const CurveParity& c) { return c.holds(rule); }) ? 0 : 1;
}

}  // namespace tidemark
