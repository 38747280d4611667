// The precision in which a loss was computed or logged: what rounding to it leaves, and how far two
// values are apart in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/curves/curve.h"

namespace tidemark {

enum class Precision { bf16, fp16, fp32, fp64 };

/// "bf16"; precision_of() takes that name or the longer one (bfloat16), and is none for any other.
const char* name_of(Precision precision);
std::optional<Precision> precision_of(const std::string& name);

/// The nearest value of that precision, ties to even; infinite beyond the largest.
double rounded(double value, Precision precision);
/// Number of representable values from a to b, which are rounded first; infinite where one of them
/// is not finite, unless both are the same.
double ulps_between(double a, double b, Precision precision);
/// The distance of representable values at `value`.
double ulp_at(double value, Precision precision);

/// The coarsest precision that holds all values of the curves; fp64 of fewer than 32 values, which
/// may be round by chance.
Precision precision_of(const std::vector<const Curve*>& curves);

/// The distance of the values that a log can print at a value: as "%.4f" and "3 digits" leave it,
/// seen from the digits of its values. A log with all digits has 0.
struct Digits {
  int decimals = 0, digits = 0;  // the most behind the point, and the most in all
  double step_at(double value) const;
};
Digits digits_of(const Curve& curve);

}  // namespace tidemark
