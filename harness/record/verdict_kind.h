// Kinds of verdicts: the first word of a verdict's name, as in "memory/form/allocated/backward".
#pragma once

#include <string_view>

#include "harness/record/record.h"

namespace tidemark {

enum class VerdictKind {
  control,  // whether a wrong fix was caught
  cost,
  failure,
  growth,
  memory,
  parity,
  race,
  rest,
  saving,
  trajectory,
  other,
};

/// That of a verdict's name, or of the beginning of one.
constexpr VerdictKind verdict_kind(std::string_view name) {
  constexpr std::string_view kNames[] = {"control", "cost", "failure", "growth", "memory",
                                         "parity",  "race", "rest",    "saving", "trajectory"};
  const std::string_view first = name.substr(0, name.find('/'));
  int at = 0;
  for (const std::string_view one : kNames) {
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
