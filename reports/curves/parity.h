// The parity of two curves: bit for bit, within a tolerance, or within a number of ULPs. Every step
// must hold; no outlier is accepted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/curves/curve.h"

namespace tidemark {

enum class ParityMode { exact, tolerance, ulp };

struct ParityRule {
  ParityMode mode = ParityMode::exact;
  double rtol = 0, atol = 0;  // |b - a| <= atol + rtol * |a|
  double ulp = 0;             // at most so many representable values apart
  bool single = false;        // both rounded to float32 first, ULPs of float32
  bool common = false;        // a step that one curve alone has is no difference
  std::string text() const;   // "|b - a| <= 1e-08 + 1e-05 * |a|"
};

/// A step at which the curves differ. NaN is the same as NaN and nothing else, an infinity as the
/// same infinity and nothing else: whatever else they are compared with is infinitely far away.
struct Divergence {
  std::int64_t step = 0;
  double a = 0, b = 0;
  double difference = 0;  // |b - a|
  double ulps = 0;        // infinite where one is not finite
  bool holds = true;
};

/// Number of representable numbers (of float32 with `single`) from a to b.
double ulps_between(double a, double b, bool single);
Divergence compare_points(const CurvePoint& a, const CurvePoint& b, const ParityRule& rule);

struct CurveParity {
  std::string a, b;  // names of the curves
  std::int64_t compared = 0, diverged = 0, different = 0, not_a_number = 0;
  std::optional<Divergence> first, largest;  // of those that do not hold; largest in ULPs
  std::optional<Divergence> furthest;        // of all, in ULPs; none where all are the same
  std::vector<std::int64_t> missing_in_a, missing_in_b;
  std::vector<Divergence> steps;  // all that were compared, where they are kept
  bool holds(const ParityRule& rule) const;
};

/// `keep`: every step that was compared, which only a page shows.
CurveParity parity(const Curve& a, const Curve& b, const ParityRule& rule, bool keep = true);

/// "5, 7, 9-12 and 88 more".
std::string steps_text(const std::vector<std::int64_t>& steps);

struct ParitySide {
  std::string path, format;
};
struct ParityReport {
  ParitySide a, b;
  ParityRule rule;
  std::vector<CurveParity> curves;
  std::int64_t compared() const;
  int exit_code() const;  // 0, 1 where one curve does not hold, 4 where no number was compared
};

std::string parity_summary(const ParityReport& report);
std::string parity_text(const ParityReport& report);
std::string parity_markdown(const ParityReport& report);
std::string parity_json(const ParityReport& report);
std::string parity_html(const ParityReport& report);

}  // namespace tidemark
