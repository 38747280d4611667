// Comparison of one metric of two runs, step by step.
#pragma once

#include <optional>

#include "reports/compare/compare.h"

namespace tidemark {

struct Outcome {
  bool differs = false;  // at all; with no change where every difference is within the threshold
  std::optional<Change> change;  // its place, names and ranks are the caller's to fill in
};

Outcome hold(const Metric& before, const Metric& after, const Thresholds& thresholds);

}  // namespace tidemark
