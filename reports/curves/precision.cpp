#include "reports/curves/precision.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

namespace tidemark {
namespace {

constexpr double kBeyond = std::numeric_limits<double>::infinity();
constexpr std::size_t kEnough = 32;     // values from which a precision is inferred
constexpr std::size_t kSampled = 4096;  // values whose digits are looked at
constexpr int kAllDigits = 14;          // no log prints so many decimal digits on purpose

struct Format {
  std::string_view names[2];
  int bits;      // of the significand, the hidden one included
  int exponent;  // of the smallest normal number
  double largest;
};
constexpr Format kFormats[] = {
    {{"bf16", "bfloat16"}, 8, -126, 0x1.fep127},
    {{"fp16", "float16"}, 11, -14, 65504},
    {{"fp32", "float32"}, 24, -126, std::numeric_limits<float>::max()},
    {{"fp64", "float64"}, 53, -1022, std::numeric_limits<double>::max()}};

const Format& format_of(Precision precision) {
  return kFormats[static_cast<std::size_t>(precision)];
}

/// Binades above that of the smallest normal number.
int binade(double value, const Format& format) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return value == 0 ? 0 : std::max(exponent - 1 - format.exponent, 0);
}

/// The place among all values of the format, in their order: zero is 0.
std::int64_t place_of(double value, const Format& format) {
  const int above = binade(value, format);
  const double steps = std::ldexp(std::abs(value), format.bits - 1 - format.exponent - above);
  const auto place = (std::int64_t{above} << (format.bits - 1)) + static_cast<std::int64_t>(steps);
  return value < 0 ? -place : place;
}

}  // namespace

const char* name_of(Precision precision) { return format_of(precision).names[0].data(); }

std::optional<Precision> precision_of(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kFormats); ++i)
    if (std::ranges::find(kFormats[i].names, name) != std::end(kFormats[i].names))
      return static_cast<Precision>(i);
  return std::nullopt;
}

double ulp_at(double value, Precision precision) {
  const Format& format = format_of(precision);
  return std::ldexp(1.0, format.exponent + binade(value, format) - (format.bits - 1));
}

double rounded(double value, Precision precision) {
  if (precision == Precision::fp64 || !std::isfinite(value)) return value;
  const double ulp = ulp_at(value, precision);
  const double near = std::nearbyint(value / ulp) * ulp;
  return std::abs(near) <= format_of(precision).largest ? near : std::copysign(kBeyond, value);
}

double ulps_between(double a, double b, Precision precision) {
  a = rounded(a, precision), b = rounded(b, precision);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : kBeyond;
  if (std::isinf(a) || std::isinf(b)) return a == b ? 0 : kBeyond;
  const auto p = place_of(a, format_of(precision)), q = place_of(b, format_of(precision));
  const auto x = static_cast<std::uint64_t>(p), y = static_cast<std::uint64_t>(q);
  return static_cast<double>(p > q ? x - y : y - x);  // of signs apart more than an int64 has
}

Precision precision_of(const std::vector<const Curve*>& curves) {
  std::size_t values = 0;
  for (const Curve* curve : curves) values += curve->points.size();
  if (values < kEnough) return Precision::fp64;
  for (const Precision one : {Precision::bf16, Precision::fp16, Precision::fp32}) {
    const auto holds = [&](const CurvePoint& point) {
      return !std::isfinite(point.value) || rounded(point.value, one) == point.value;
    };
    if (std::ranges::all_of(
            curves, [&](const Curve* curve) { return std::ranges::all_of(curve->points, holds); }))
      return one;
  }
  return Precision::fp64;
}

double Digits::step_at(double value) const {
  if (digits == 0 || digits >= kAllDigits) return 0;
  const int exponent = value == 0 ? -decimals : static_cast<int>(std::log10(std::abs(value)));
  const int below = std::abs(value) < 1 && value != 0 ? 1 : 0;
  return std::pow(10.0, std::max(-decimals, exponent - below + 1 - digits));
}

Digits digits_of(const Curve& curve) {
  Digits out;
  const std::size_t every = curve.points.size() / kSampled + 1;
  for (std::size_t i = 0; i < curve.points.size(); i += every) {
    if (!std::isfinite(curve.points[i].value)) continue;
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, std::abs(curve.points[i].value),
                                   std::chars_format::scientific);
    const std::string_view whole(text, static_cast<std::size_t>(end.ptr - text));
    const auto mark = whole.find('e');
    const int digits = static_cast<int>(mark) - (mark > 1 ? 1 : 0);
    const std::string_view power = whole.substr(mark + (whole[mark + 1] == '+' ? 2 : 1));
    int exponent = 0;
    std::from_chars(power.data(), power.data() + power.size(), exponent);
    out.digits = std::max(out.digits, digits);
    out.decimals = std::max(out.decimals, digits - 1 - exponent);
  }
  return out;
}

}  // namespace tidemark
