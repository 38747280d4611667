#include "harness/record/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

namespace tidemark {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kBinary[] = {
    {"TiB", 1099511627776.0}, {"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0}};

}  // namespace

std::string ByteUnit::operator()(Bytes value) const {
  std::string text = fmt::format("{:.{}f}", static_cast<double>(value) / bytes, decimals);
  if (value > 0 && text.find_first_not_of("0.") == text.npos) {  // 0.00 would be nothing
    text.back() = '1';
    text.insert(0, "<");
  }
  return text;
}

ByteUnit unit_for(Bytes largest, Bytes smallest) {
  static constexpr ByteUnit kUnits[] = {
      {"GiB", 1 << 30, 2}, {"MiB", 1 << 20, 1}, {"KiB", 1 << 10, 1}, {"bytes", 1, 0}};
  const auto high = static_cast<double>(largest), low = static_cast<double>(smallest);
  std::size_t at = high >= 10.0 * (1 << 30) ? 0 : high >= 1 << 20 ? 1 : high >= 10 << 10 ? 2 : 3;
  const auto lost = [&] { return low > 0 && low < kUnits[at].bytes; };
  while (at < 3 && lost() && high < 1e5 * kUnits[at + 1].bytes) ++at;
  ByteUnit unit = kUnits[at];
  if (at == 1 && high < 100 * unit.bytes) unit.decimals = 2;
  return unit;
}

std::string exact(double value) {
  if (!(std::abs(value) < 9007199254740992.0) || value != std::trunc(value))
    return fmt::format("{}", value);
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  if (value < 0) digits.insert(0, 1, '-');
  return digits;
}

std::string signed_bytes(Bytes by) { return (by > 0 ? "+" : "") + exact(by); }

std::string plural(std::int64_t n, const std::string& what, const std::string& many) {
  return fmt::format("{} {}", exact(n), n == 1 ? what : many.empty() ? what + "s" : many);
}

std::string bytes_text(Bytes bytes) {
  for (const auto& [name, unit] : kBinary) {
    const double value = static_cast<double>(bytes) / unit;
    if (std::abs(value) >= 1)
      return fmt::format("{:.{}f} {}", value, value == std::trunc(value) ? 0 : 1, name);
  }
  return fmt::format("{} bytes", bytes);
}

std::string signed_text(Bytes by) { return (by < 0 ? "-" : "+") + bytes_text(by < 0 ? -by : by); }

// A smaller number without a unit is taken for a forgotten one: `--capacity 80`.
constexpr double kWithoutUnit = 1 << 20;

std::optional<Bytes> parse_bytes(const std::string& text) {
  std::vector<Unit> units(std::begin(kBinary), std::end(kBinary));
  units.insert(units.end(),
               {{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}});
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const auto unit = std::ranges::find(units, std::string_view(rest, end), &Unit::name);
  if (error != std::errc() || unit == units.end()) return std::nullopt;
  if (unit->name.empty() && value < kWithoutUnit) return std::nullopt;
  value *= unit->bytes;
  if (!(value >= 1 && value < 9007199254740992.0) || value != std::trunc(value))
    return std::nullopt;
  return static_cast<Bytes>(value);
}

std::optional<Bytes> parse_bytes_or_zero(const std::string& text) {
  const std::size_t unit = text.find_first_not_of('0');
  if (unit == 0 || text.empty()) return parse_bytes(text);
  if (unit == std::string::npos) return 0;
  return parse_bytes("1" + text.substr(unit)) ? std::optional<Bytes>(0) : parse_bytes(text);
}

std::string not_bytes(const std::string& flag, const std::string& text) {
  return fmt::format(
      "{} {}: expected a number of bytes, at least 1, as in 6442450944, 6GiB or 80GB; below 1 MiB "
      "with its unit, as in 512B",
      flag, text);
}

std::string duration(Ns ns) {
  const auto value = static_cast<double>(ns);
  if (ns >= 1'000'000'000) return fmt::format("{:.3g} s", value * 1e-9);
  if (ns >= 1'000'000) return fmt::format("{:.3g} ms", value * 1e-6);
  if (ns >= 1'000) return fmt::format("{:.3g} us", value * 1e-3);
  return fmt::format("{} ns", ns);
}

}  // namespace tidemark
