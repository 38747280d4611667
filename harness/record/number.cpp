#include "harness/record/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace tidemark {

std::optional<double> parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  // from_chars would take another sign, and "nan(...)", which no program prints.
  if (text.empty() || text.front() == '-' || text.find('(') != std::string_view::npos)
    return std::nullopt;
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value,
                                    hex ? std::chars_format::hex : std::chars_format::general);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return negative ? -value : value;
}

std::optional<std::int64_t> whole(double value) {
  if (!(std::abs(value) <= 9007199254740992.0) || value != std::trunc(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> parse_step(std::string_view text) {
  std::int64_t step = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), step);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return step;
  const auto value = parse_number(text);
  return value ? whole(*value) : std::nullopt;
}

std::string decimal(double value) {
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

}  // namespace tidemark
