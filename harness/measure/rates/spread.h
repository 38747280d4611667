// Spread of repeated measurements of one figure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark::rates {

/// Median and quartiles over `samples` measurements.
struct Spread {
  double median = 0, low = 0, high = 0;
  int samples = 0;
};

/// One constant of a GPU profile: where it stands there, and what was measured, or why it was not.
struct Rate {
  std::string group, name;  // "dense_tflops", "bf16"; times in ns, bandwidths in GB/s
  std::optional<Spread> measured;
  std::string how;  // measured: of what; else why not
};

/// The end of the time that all measurements have together, by the steady clock.
class Deadline {
 public:
  explicit Deadline(double seconds);
  bool over() const;

 private:
  Ns end_;
};

/// `measure` once for nothing (the first call of anything loads it), then kRepetitions times, fewer
/// where the deadline comes, but not fewer than kLeast. What is not a number above 0 is no
/// measurement: none where fewer than kLeast are left.
inline constexpr int kRepetitions = 9, kLeast = 3;
std::optional<Spread> repeat(const Deadline& deadline, const std::function<double()>& measure);
/// The constant by repeat(): measured of `how`, or why not.
Rate measured(const std::string& group, const std::string& name, const std::string& how,
              const Deadline& deadline, const std::function<double()>& measure);

/// Why repeat() gave none.
std::string why_none(const Deadline& deadline);

}  // namespace tidemark::rates
