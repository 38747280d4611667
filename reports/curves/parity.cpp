#include "reports/curves/parity.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "harness/record/number.h"

namespace tidemark {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::size_t kStepsNamed = 12;  // runs of steps

/// Representable numbers between two floats or doubles.
template <class Bits, class Float>
double apart(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kInfinite;
  if (std::isinf(a) || std::isinf(b)) return a == b ? 0 : kInfinite;
  return steps_between<Bits>(a, b);
}

bool same(double a, double b, bool single) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (single) {
    const auto x = static_cast<float>(a), y = static_cast<float>(b);
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  }
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool holds(double a, double b, double ulps, const ParityRule& rule) {
  if (same(a, b, rule.single)) return true;
  if (rule.mode == ParityMode::exact) return false;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  if (rule.mode == ParityMode::ulp) return ulps <= rule.ulp;
  return std::abs(b - a) <= rule.atol + rule.rtol * std::abs(a);
}

}  // namespace

std::string ParityRule::text() const {
  const char* kind = single ? "float32" : "float64";
  if (mode == ParityMode::exact) return fmt::format("the same bits ({})", kind);
  if (mode == ParityMode::ulp) return fmt::format("at most {} ULP of {}", ulp, kind);
  return fmt::format("|b - a| <= {} + {} * |a|{}", atol, rtol, single ? " (float32)" : "");
}

double ulps_between(double a, double b, bool single) {
  return single ? apart<std::int32_t>(static_cast<float>(a), static_cast<float>(b))
                : apart<std::int64_t>(a, b);
}

Divergence compare_points(const CurvePoint& a, const CurvePoint& b, const ParityRule& rule) {
  Divergence out{a.step, a.value, b.value, 0, 0, true};
  if (rule.single) {
    out.a = static_cast<double>(static_cast<float>(a.value));
    out.b = static_cast<double>(static_cast<float>(b.value));
  }
  out.ulps = ulps_between(a.value, b.value, rule.single);
  out.holds = holds(out.a, out.b, out.ulps, rule);
  const double difference = std::abs(out.b - out.a);
  out.difference = out.ulps == 0 ? 0 : std::isnan(difference) ? kInfinite : difference;
  return out;
}

bool CurveParity::holds(const ParityRule& rule) const {
  return diverged == 0 && (rule.common || (missing_in_a.empty() && missing_in_b.empty()));
}

CurveParity parity(const Curve& a, const Curve& b, const ParityRule& rule, bool keep) {
  CurveParity out;
  out.a = a.name, out.b = b.name;
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
    if (!same(d.a, d.b, rule.single)) {
      ++out.different;
      if (!out.furthest || d.ulps > out.furthest->ulps) out.furthest = d;
    }
    if (d.holds) continue;
    ++out.diverged;
    if (!out.first) out.first = d;
    if (!out.largest || d.ulps > out.largest->ulps) out.largest = d;
  }
  return out;
}

std::string steps_text(const std::vector<std::int64_t>& steps) {
  std::string out;
  std::size_t named = 0, runs = 0;
  for (std::size_t from = 0; from < steps.size() && runs < kStepsNamed; ++runs) {
    std::size_t to = from;
    while (to + 1 < steps.size() && steps[to + 1] == steps[to] + 1) ++to;
    out += fmt::format("{}{}", runs == 0 ? "" : ", ", steps[from]);
    if (to > from) out += fmt::format("-{}", steps[to]);
    from = named = to + 1;
  }
  if (named < steps.size()) out += fmt::format(" and {} more", steps.size() - named);
  return out;
}

std::int64_t ParityReport::compared() const {
  std::int64_t out = 0;
  for (const CurveParity& c : curves) out += c.compared;
  return out;
}

int ParityReport::exit_code() const {
  std::int64_t numbers = 0;
  bool all = true;
  for (const CurveParity& c : curves) {
    numbers += c.compared - c.not_a_number;
    all = all && c.holds(rule);
  }
  if (compared() == 0) return 4;
  if (!all) return 1;
  return numbers == 0 ? 4 : 0;
}

}  // namespace tidemark
