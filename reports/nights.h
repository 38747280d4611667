// Peaks of the nights before, for a small line beside a peak.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

inline constexpr std::size_t kNights = 14;

/// Highest peak of any step of a trial's variant, on the worst rank: one value for each night that
/// has it, the oldest first, that of the report itself last. Empty where no night before has the
/// same trial with the same settings on the same device (history/nights_of.h).
struct Nights {
  using Key = std::tuple<const TrialRecord*, std::string, Statistic>;  // trial, variant
  std::map<Key, std::vector<Bytes>> peaks;
};

/// The line as a picture that says its figures; empty with fewer than two nights.
std::string nights_html(const Nights* nights, const TrialRecord& trial, const std::string& variant,
                        Statistic statistic);

}  // namespace tidemark
