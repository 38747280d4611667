// Kinds of verdicts: the first word of a verdict's name, as in "memory/form/allocated/backward".
#pragma once

#include <string_view>

#include "harness/record/record.h"

namespace tidemark {

enum class VerdictKind {
  account,
  bracket,
  calls,
  control,  // whether a wrong fix was caught
  cost,
  failure,
  growth,
  memory,
  order,
  parity,
  race,
  rest,
  saving,
  trajectory,
  other,  // "run", and the names of tests
};
/// Their words, in the enumeration's order. The schema of report.json has them from here, and
/// run_trial() refuses a scenario's verdict of another kind.
inline constexpr std::string_view kVerdictKinds[] = {
    "account", "bracket", "calls",  "control", "cost", "failure", "growth",
    "memory",  "order",   "parity", "race",    "rest", "saving",  "trajectory"};

/// That of a verdict's name, or of the beginning of one.
constexpr VerdictKind verdict_kind(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  int at = 0;
  for (const std::string_view one : kVerdictKinds) {
    if (one == first) return static_cast<VerdictKind>(at);
    ++at;
  }
  return VerdictKind::other;
}

inline VerdictKind kind_of(const Verdict& verdict) { return verdict_kind(verdict.name); }

/// True if it judges bytes, which the allocator's retries would change.
constexpr bool is_of_memory(VerdictKind kind) {
  return kind == VerdictKind::memory || kind == VerdictKind::saving ||
         kind == VerdictKind::trajectory || kind == VerdictKind::growth ||
         kind == VerdictKind::rest;
}

}  // namespace tidemark
