#include "harness/judge/counts.h"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace {

std::string text_of(const std::vector<Call>& calls, std::size_t i) {
  return i < calls.size() ? calls[i].op + " of " + calls[i].unit : "nothing";
}

}  // namespace

Verdict bounded(const std::string& name, double low, double high, double measured,
                const std::string& formula) {
  Verdict verdict{.name = name, .low = low, .high = high, .formula = formula};
  if (!std::isnan(measured)) verdict.measured = measured;
  // Written so that a NaN fails.
  verdict.status = measured >= low && measured <= high ? Status::pass : Status::fail;
  return verdict;
}

Verdict equal(const std::string& name, const Formula& expected, double measured,
              const std::string& unit) {
  const double value = expected.evaluate();
  auto verdict = bounded(name, value, value, measured, expected.text);
  verdict.values = expected.values;
  verdict.unit = unit;
  return verdict;
}

Verdict counted(const std::string& name, std::int64_t expected, std::int64_t measured,
                const std::string& unit, const std::string& what) {
  const auto value = static_cast<double>(expected);
  auto verdict = bounded(name, value, value, static_cast<double>(measured), what);
  verdict.unit = unit;
  return verdict;
}

std::int64_t times(const std::vector<Call>& calls, const std::string& op) {
  return std::ranges::count(calls, op, &Call::op);
}

Verdict in_order(const std::string& name, const std::vector<Call>& expected,
                 const std::vector<Call>& measured, const std::string& what) {
  std::int64_t different = 0;
  std::string first;
  for (std::size_t i = 0; i < std::max(expected.size(), measured.size()); ++i) {
    const auto wanted = text_of(expected, i), actual = text_of(measured, i);
    if (wanted == actual) continue;
    if (different++ == 0)
      first = "call " + std::to_string(i) + ": " + actual + " instead of " + wanted;
  }
  auto verdict = counted(name, 0, different, "calls", what);
  verdict.why = first;
  return verdict;
}

}  // namespace tidemark
