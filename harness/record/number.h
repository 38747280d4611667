// Numbers as programs print them: decimal, hexadecimal (0x1.8p+1), nan, inf.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tidemark {

/// The whole of `text`, or none. A decimal that no double can hold is none.
std::optional<double> parse_number(std::string_view text);
/// A whole number, also as 12.0; none for all else.
std::optional<std::int64_t> parse_step(std::string_view text);
std::optional<std::int64_t> whole(double value);

/// The shortest decimal that reads back as the same number, with a point or an exponent: as
/// Python's repr().
std::string decimal(double value);

/// Number of representable numbers from a to b, by their bits: neighbours are one apart, both zeros
/// are one. Exact, and without overflow where the two are far apart.
template <class Bits, class Float>
double steps_between(Float a, Float b) {
  const auto place = [](Float value) {  // in the order of the numbers
    const auto bits = std::bit_cast<Bits>(value);
    const Bits placed = bits < 0 ? std::numeric_limits<Bits>::min() - bits : bits;
    return static_cast<std::int64_t>(placed);
  };
  const std::int64_t p = place(a), q = place(b);
  const auto x = static_cast<std::uint64_t>(p), y = static_cast<std::uint64_t>(q);
  return static_cast<double>(p > q ? x - y : y - x);
}

}  // namespace tidemark
