#include "reports/curves/student.h"

#include <cmath>

namespace tidemark {
namespace {

/// The regularised incomplete beta function I_x(a, b) for x < (a + 1) / (a + b + 2), by its
/// continued fraction (Lentz's method; Abramowitz and Stegun 26.5.8).
double beta_below(double x, double a, double b) {
  constexpr double kSmallest = 1e-300, kClose = 1e-15;
  constexpr int kTerms = 10000;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kSmallest ? kSmallest : d);
  double sum = d;
  for (int m = 1; m < kTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double by = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < kSmallest ? kSmallest : d);
      c = 1 + term / c;
      if (std::abs(c) < kSmallest) c = kSmallest;
      by = d * c;
      sum *= by;
    }
    if (std::abs(by - 1) < kClose) break;
  }
  const double log =
      a * std::log(x) + b * std::log1p(-x) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b);
  return std::exp(log) * sum / a;
}

double beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  return x < (a + 1) / (a + b + 2) ? beta_below(x, a, b) : 1 - beta_below(1 - x, b, a);
}

/// The place at which `tail`, which falls, has the value `p`.
template <class Tail>
double place_of(double p, Tail tail) {
  double low = 0, high = 1;
  while (tail(high) > p && high < 1e150) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (tail(middle) > p ? low : high) = middle;
  }
  return high;
}

}  // namespace

double student_tail(double t, double freedom) {
  return beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

double student_quantile(double p, double freedom) {
  return place_of(p, [&](double t) { return student_tail(t, freedom); });
}

double normal_quantile(double p) {
  return place_of(p, [](double z) { return std::erfc(z / std::sqrt(2.0)); });
}

}  // namespace tidemark
