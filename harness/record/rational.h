// Numbers of formulas: exact fractions of 128-bit integers.
#pragma once

#include <cmath>
#include <numeric>
#include <optional>

namespace tidemark {

__extension__ using Whole = __int128;

/// A fraction in its lowest terms, with a positive denominator. Arithmetic gives none where a
/// result has more than 127 bits, or divides by 0.
class Rational {
 public:
  Rational() = default;
  static std::optional<Rational> of(Whole above, Whole below) {
    if (below == 0 || above == kLowest || below == kLowest) return {};
    if (below < 0) above = -above, below = -below;
    const Whole common = divisor(above, below);
    Rational out;
    out.above_ = above / common;
    out.below_ = below / common;
    return out;
  }
  /// Exactly this number; none where it is not finite, or beyond 127 bits.
  static std::optional<Rational> of(double number) {
    if (!std::isfinite(number)) return {};
    int exponent = 0;
    auto mantissa = static_cast<Whole>(std::ldexp(std::frexp(number, &exponent), 53));
    exponent -= 53;
    for (; exponent < 0 && mantissa % 2 == 0 && mantissa != 0; ++exponent) mantissa /= 2;
    if (mantissa == 0) return Rational();
    if (exponent < -126 || exponent > 126) return {};
    const Whole scale = Whole{1} << std::abs(exponent);
    if (exponent < 0) return of(mantissa, scale);
    if (__builtin_mul_overflow(mantissa, scale, &mantissa)) return {};
    return of(mantissa, 1);
  }

  bool whole() const { return below_ == 1; }
  Whole above() const { return above_; }
  explicit operator double() const {
    return static_cast<double>(above_) / static_cast<double>(below_);
  }
  Rational floor() const {
    Rational out;
    out.above_ = above_ / below_ - (above_ < 0 && above_ % below_ != 0 ? 1 : 0);
    return out;
  }

  friend std::optional<Rational> operator+(const Rational& a, const Rational& b) {
    Whole left = 0, right = 0, below = 0;
    if (__builtin_mul_overflow(a.above_, b.below_, &left) ||
        __builtin_mul_overflow(b.above_, a.below_, &right) ||
        __builtin_add_overflow(left, right, &left) ||
        __builtin_mul_overflow(a.below_, b.below_, &below))
      return {};
    return of(left, below);
  }
  friend std::optional<Rational> operator*(const Rational& a, const Rational& b) {
    // Crosswise first, so that a result that has room never passes through one that has none.
    const Whole one = divisor(a.above_, b.below_), other = divisor(b.above_, a.below_);
    Whole above = 0, below = 0;
    if (__builtin_mul_overflow(a.above_ / one, b.above_ / other, &above) ||
        __builtin_mul_overflow(a.below_ / other, b.below_ / one, &below))
      return {};
    return of(above, below);
  }
  std::optional<Rational> inverse() const { return of(below_, above_); }
  bool operator==(const Rational&) const = default;

 private:
  static constexpr Whole kLowest = Whole{1} << 127;  // has no positive one beside it
  static Whole divisor(Whole a, Whole b) {
    while (b != 0) {
      const Whole rest = a % b;
      a = b;
      b = rest;
    }
    return a < 0 ? -a : a == 0 ? 1 : a;
  }

  Whole above_ = 0, below_ = 1;
};

}  // namespace tidemark
