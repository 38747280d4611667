#include "reports/compare/threshold.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace tidemark {
namespace {

struct Suffix {
  const char* name;
  double factor;
};
constexpr Suffix kSuffixes[] = {{"%", 0.01}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
                                {"ns", 1},   {"us", 1e3},      {"ms", 1e6},      {"s", 1e9},
                                {"B", 1},    {"", 1}};

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw std::runtime_error(fmt::format(
      "--threshold {}: {} (KIND=VALUE or GLOB=VALUE, as in memory=0 time=5% "
      "'memory/active/*=1MiB'; kinds: loss, parity, races, memory, saving, time, counters)",
      text, what));
}

}  // namespace

Threshold parse_threshold(const std::string& text) {
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) refuse(text, "has no '='");
  Threshold out{text.substr(0, equals), 0, false, text};
  const bool kind = std::ranges::any_of(kKinds, [&](Kind k) { return out.pattern == name_of(k); });
  if (!kind && out.pattern.find_first_of("*?/[") == std::string::npos)
    refuse(text, fmt::format("'{}' is not a kind of metric", out.pattern));
  const char* begin = text.data() + equals + 1;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(begin, end, out.value);
  if (read.ec != std::errc() || !std::isfinite(out.value) || out.value < 0 ||
      std::signbit(out.value))
    refuse(text, "needs a number that is finite and not negative");
  const std::string_view rest(read.ptr, static_cast<std::size_t>(end - read.ptr));
  const auto suffix =
      std::ranges::find_if(kSuffixes, [&](const Suffix& s) { return rest == s.name; });
  if (suffix == std::end(kSuffixes))
    refuse(text, fmt::format("'{}' is not one of %, KiB, MiB, GiB, ns, us, ms, s", rest));
  out.value *= suffix->factor;
  out.relative = rest == "%";
  return out;
}

std::vector<Threshold> default_thresholds() {
  std::vector<Threshold> out;
  for (Kind kind : kKinds)
    out.push_back(
        parse_threshold(fmt::format("{}={}", name_of(kind), kind == Kind::time ? "5%" : "0")));
  return out;
}

Thresholds::Thresholds(const std::vector<Threshold>& given) : all_(default_thresholds()) {
  all_.insert(all_.end(), given.begin(), given.end());
}

const Threshold& Thresholds::of(const Metric& metric) const {
  const auto fits = [&](const Threshold& t) {
    return t.pattern == name_of(metric.kind) ||
           fnmatch(t.pattern.c_str(), metric.name.c_str(), 0) == 0;
  };
  return *std::find_if(all_.rbegin(), all_.rend(), fits);  // a default fits every kind
}

bool Thresholds::beyond(const Metric& metric, double before, double after) const {
  const Threshold& threshold = of(metric);
  const double allowed = threshold.relative ? threshold.value * std::abs(before) : threshold.value;
  return !(std::abs(after - before) <= allowed);
}

}  // namespace tidemark
