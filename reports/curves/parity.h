// The parity of two curves: equal but for noise, or, where a user asks for it, bit for bit, within
// a tolerance or within a number of ULPs at every step.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/words.h"
#include "reports/curves/curve.h"
#include "reports/curves/noise.h"
#include "reports/curves/precision.h"

namespace tidemark {

enum class ParityMode { noise, exact, tolerance, ulp };
constexpr auto words(ParityMode) { return std::array{"noise", "exact", "tolerance", "ulp"}; }

struct ParityRule {
  ParityMode mode = ParityMode::noise;
  double rtol = 0, atol = 0;           // |b - a| <= atol + rtol * |a|
  double ulp = 0;                      // at most so many representable values apart
  std::optional<Precision> precision;  // both are rounded to it first; none: that of the values
  bool common = false;                 // a step that one curve alone has is no difference
  std::string text() const;            // "|b - a| <= 1e-08 + 1e-05 * |a|"
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

/// `rule.precision` is given. In mode noise, only values that are not finite diverge at a step.
Divergence compare_points(const CurvePoint& a, const CurvePoint& b, const ParityRule& rule);

struct CurveParity {
  std::string a, b;  // names of the curves
  std::int64_t compared = 0, diverged = 0, different = 0, not_a_number = 0;
  std::optional<Divergence> first, largest;  // of those that do not hold; largest in ULPs
  std::optional<Divergence> furthest;        // of all, in ULPs; none where all are the same
  std::optional<std::int64_t> bits_apart;    // the first step with other bits
  std::optional<std::int64_t> lost;          // from here to the end no step has a number in either
  std::vector<std::int64_t> missing_in_a, missing_in_b;
  std::int64_t missing_in_runs = 0;  // common steps that another run of A has not, or as no number
  Precision precision = Precision::fp64;
  std::optional<NoiseVerdict> noise;  // none where another rule judges, or steps are too few
  std::vector<Divergence> steps;      // all that were compared, where they are kept
  bool holds(const ParityRule& rule) const;
  std::optional<std::int64_t> first_step() const;  // at which the curves part, by the rule
};

/// `keep`: every step that was compared, which only a page shows. `runs`: other runs of A, which
/// show its noise.
CurveParity parity(const Curve& a, const Curve& b, const ParityRule& rule, bool keep = true,
                   const std::vector<const Curve*>& runs = {});

/// The name of the curves, or both names where they differ.
std::string parity_title(const CurveParity& curve);
/// How B differs from A, in one sentence.
std::string verdict_text(const CurveParity& curve, const ParityRule& rule);
/// How the noise was judged: windows, thresholds and their false alarms.
std::vector<std::string> noise_text(const NoiseVerdict& noise);

inline constexpr std::size_t kStepRanges = 12;  // of steps that a sentence names

struct ParitySide {
  std::string path, format;
  std::vector<std::string> notes = {};  // what its reader has left out
};
struct ParityReport {
  ParitySide a, b;
  ParityRule rule;
  std::vector<CurveParity> curves;
  std::vector<ParitySide> runs = {};  // other runs of A
  std::int64_t compared() const;
  int exit_code() const;  // 0, 1 where one curve does not hold, 4 where no step was compared
};

std::string parity_summary(const ParityReport& report);
std::string parity_text(const ParityReport& report);
std::string parity_markdown(const ParityReport& report);
std::string parity_json(const ParityReport& report);
std::string parity_html(const ParityReport& report);

}  // namespace tidemark
