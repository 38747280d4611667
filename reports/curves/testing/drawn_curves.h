// Curves that are drawn: losses that fall, noise, logs as trainers write them.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "harness/testing/property.h"
#include "reports/curves/curve.h"
#include "reports/curves/noise.h"
#include "reports/curves/precision.h"

namespace tidemark::testing {

class Drawn {
 public:
  explicit Drawn(std::uint64_t seed) : random_(seed) {}

  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool coin() { return whole(0, 1) == 1; }

  /// Noise of unit variance at first: normal or with the tails of Student's t, correlated from step
  /// to step, and falling with the loss or not.
  std::vector<double> noise(std::size_t n) {
    const double rho = coin() ? 0 : uniform(0, 0.8), fall = coin() ? 0 : uniform(0, 3);
    const bool heavy = whole(0, 3) == 0;
    std::normal_distribution<double> normal;
    std::student_t_distribution<double> tails(5);
    std::vector<double> out(n);
    double state = 0;
    for (std::size_t t = 0; t < n; ++t) {
      state = rho * state + std::sqrt(1 - rho * rho) * (heavy ? tails(random_) : normal(random_));
      out[t] = state * std::exp(-fall * static_cast<double>(t) / static_cast<double>(n));
    }
    return out;
  }
  std::vector<double> decay(std::size_t n) {
    const double height = uniform(5, 12), floor = uniform(1.5, 3), speed = uniform(2, 10);
    std::vector<double> out(n);
    for (std::size_t t = 0; t < n; ++t)
      out[t] = floor + height * std::exp(-speed * static_cast<double>(t) / static_cast<double>(n));
    return out;
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::mt19937_64 random_;
};

inline std::vector<double> sum(const std::vector<double>& a, double by,
                               const std::vector<double>& b) {
  std::vector<double> out(a.size());
  for (std::size_t t = 0; t < a.size(); ++t) out[t] = a[t] + by * b[t];
  return out;
}

/// As a log has it: all digits, four behind the point, or bf16.
inline Curve logged(const std::vector<double>& values, int how) {
  Curve out{"loss", {}};
  for (std::size_t t = 0; t < values.size(); ++t)
    out.points.push_back(
        {static_cast<std::int64_t>(t) + 1, how == 1   ? std::round(values[t] * 1e4) / 1e4
                                           : how == 2 ? rounded(values[t], Precision::bf16)
                                                      : values[t]});
  return out;
}

/// Runs that stay apart for long: a lasting offset and a slow wave each. Other runs of A show it.
inline std::vector<double> slow_run(Drawn& d, const std::vector<double>& level, double size,
                                    double slow) {
  const double n = static_cast<double>(level.size());
  std::normal_distribution<double> normal;
  const double offset = normal(d.random()), wave = normal(d.random()), phase = d.uniform(0, 6.28),
               speed = d.uniform(1, 4);
  auto out = sum(level, size, d.noise(level.size()));
  for (std::size_t t = 0; t < out.size(); ++t)
    out[t] += slow * (offset + wave * std::sin(phase + speed * 6.28 * static_cast<double>(t) / n));
  return out;
}

inline std::uint64_t seed() {
  return static_cast<std::uint64_t>(from_environment("TIDEMARK_TEST_SEED", 20261121));
}

/// More false alarms than this have a probability below 1 in 1000 where each is one with
/// kFalseAlarm.
inline double most_alarms(int equal) {
  const double expected = kFalseAlarm * equal;
  return expected + 3.1 * std::sqrt(expected) + 1;
}

}  // namespace tidemark::testing
