#include "harness/judge/counts.h"

#include <algorithm>

namespace tidemark {
namespace {

std::string text_of(const std::vector<Call>& calls, std::size_t i) {
  return i < calls.size() ? calls[i].op + " of " + calls[i].unit : "nothing";
}

Verdict of_equality(const std::string& name, double expected, double measured,
                    const std::string& unit, const std::string& formula) {
  Verdict verdict;
  verdict.name = name;
  verdict.low = verdict.high = expected;
  verdict.formula = formula;
  verdict.measured = measured;
  verdict.status = measured == expected ? Status::pass : Status::fail;
  verdict.unit = unit;
  return verdict;
}

}  // namespace

Verdict equal(const std::string& name, const Formula& expected, double measured,
              const std::string& unit) {
  auto verdict = of_equality(name, expected.evaluate(), measured, unit, expected.text);
  verdict.values = expected.values;
  return verdict;
}

Verdict counted(const std::string& name, std::int64_t expected, std::int64_t measured,
                const std::string& unit, const std::string& what) {
  return of_equality(name, static_cast<double>(expected), static_cast<double>(measured), unit,
                     what);
}

std::int64_t times(const std::vector<Call>& calls, const std::string& op) {
  return std::ranges::count(calls, op, &Call::op);
}

Verdict in_order(const std::string& name, const std::vector<Call>& expected,
                 const std::vector<Call>& measured, const std::string& what) {
  std::int64_t different = 0;
  std::string first;
  for (std::size_t i = 0; i < std::max(expected.size(), measured.size()); ++i) {
    const auto wanted = text_of(expected, i), found = text_of(measured, i);
    if (wanted == found) continue;
    if (different++ == 0)
      first = "call " + std::to_string(i) + ": " + found + " instead of " + wanted;
  }
  auto verdict = counted(name, 0, different, "calls", what);
  verdict.why = first;
  return verdict;
}

}  // namespace tidemark
