// Helpers of the tests of compare.
#pragma once

#include <gtest/gtest.h>

#include "reports/compare/compare.h"
#include "reports/testing/sample.h"

namespace tidemark {

inline Comparison compared(const Report& base, const Report& fresh,
                           const std::vector<std::string>& given = {}, bool allow_missing = false) {
  CompareOptions options{{}, allow_missing};
  for (const std::string& text : given) options.thresholds.push_back(parse_threshold(text));
  return compare(base, fresh, options);
}

/// A report, and a copy of it to change.
struct Compare : testing::Test {
  Report base = small_report(), fresh = base;
};

/// The first phase of the last step of a variant of the first trial, on one rank.
inline Phase& forward(Report& report, int variant = 1, int rank = 0) {
  auto& v = report.trials[0].variants[static_cast<std::size_t>(variant)];
  return v.ranks[static_cast<std::size_t>(rank)].steps.back().phases[0];
}

}  // namespace tidemark
