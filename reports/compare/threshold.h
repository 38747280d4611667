// Thresholds: how much worse a metric may get before it counts as a regression, as in "memory=0",
// "time=5%", "memory/active/*=1MiB".
#pragma once

#include <string>
#include <vector>

#include "reports/compare/metric.h"

namespace tidemark {

struct Threshold {
  std::string pattern;  // a kind, or a glob over the names of metrics
  double value = 0;     // in the metric's unit (bytes, ns), or a fraction of the value before
  bool relative = false;
  std::string text;  // as it was given
};

/// Throws std::runtime_error in one line that says what is possible.
Threshold parse_threshold(const std::string& text);
/// memory, loss and the rest 0, time 5%.
std::vector<Threshold> default_thresholds();

class Thresholds {
 public:
  explicit Thresholds(const std::vector<Threshold>& given);
  /// The last one given that fits.
  const Threshold& of(const Metric& metric) const;
  /// True if a change from `before` to `after` is more than allowed; NaN and infinity always are.
  bool beyond(const Metric& metric, double before, double after) const;
  const std::vector<Threshold>& all() const { return all_; }

 private:
  std::vector<Threshold> all_;
};

}  // namespace tidemark
