#include "harness/measure/rates/spread.h"

#include <chrono>
#include <cmath>

#include "harness/measure/timing.h"

namespace tidemark::rates {
namespace {

Ns steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

Deadline::Deadline(double seconds) : end_(steady_now() + static_cast<Ns>(1e9 * seconds)) {}
bool Deadline::over() const { return steady_now() >= end_; }

std::optional<Spread> repeat(const Deadline& deadline, const std::function<double()>& measure) {
  if (deadline.over()) return std::nullopt;
  measure();
  std::vector<double> values;
  for (int done = 0; done < kRepetitions && (done < kLeast || !deadline.over()); ++done)
    if (const double value = measure(); std::isfinite(value) && value > 0) values.push_back(value);
  if (values.size() < kLeast) return std::nullopt;
  return Spread{quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75),
                static_cast<int>(values.size())};
}

Rate measured(const std::string& group, const std::string& name, const std::string& how,
              const Deadline& deadline, const std::function<double()>& measure) {
  Rate rate{group, name, repeat(deadline, measure), how};
  if (!rate.measured) rate.how = why_none(deadline);
  return rate;
}

std::string why_none(const Deadline& deadline) {
  return deadline.over() ? "no time was left" : "the measurements are lost in their noise";
}

}  // namespace tidemark::rates
