// The difference of two curves against noise: where it is more than chance makes it.
//
// README.md beside this file derives the thresholds. In short: each difference is divided by the
// noise near its step; the run is cut into at most 64 windows; a stretch of windows differs where
// its mean is further from zero than the means of neighbouring windows differ by themselves, by so
// much that one comparison in 200 of two equal trainings shows it anywhere. A single step differs
// where it is so far beyond the tail of all steps that one comparison in 200 has such a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/curves/precision.h"

namespace tidemark {

inline constexpr double kFalseAlarm = 0.01;     // of a comparison of two equal trainings
inline constexpr std::size_t kJudgedSteps = 8;  // fewer show no noise

/// Values at the steps that all curves have, all finite.
struct CommonSteps {
  std::vector<std::int64_t> steps;
  std::vector<double> a, b;               // `a`: where there are runs, their mean
  std::vector<std::vector<double>> runs;  // of A, itself included, where there are several
  std::vector<double> resolution;         // distance of the values that the logs can tell apart
};

/// Steps over which B differs from A in one direction.
struct Stretch {
  std::int64_t from = 0, to = 0;
  bool to_end = false;
  double mean = 0, error = 0;    // of b - a, weighted by the noise; its standard error
  double times = 0, needed = 0;  // |mean| / error, and the least that is no noise
};
struct Spike {
  std::int64_t step = 0;
  double difference = 0, times = 0;  // b - a; of the noise near it
};
struct NoiseWindow {
  std::int64_t from = 0, to = 0;
  double mean = 0, error = 0;
  double bound = 0;  // a single window differs beyond it
};

/// A single step of B between them is noise.
struct BandPoint {
  std::int64_t step = 0;
  double low = 0, high = 0;
};

struct NoiseVerdict {
  std::size_t steps = 0, runs = 0;  // runs of A; fewer than two: the noise is that of b - a itself
  std::size_t window = 0;           // steps
  double mean = 0, error = 0;       // of all steps
  double noise = 0;                 // of one step, the median
  double spike_times = 0;           // a step differs beyond so many times the noise
  double inflation = 1;             // variance of a mean of windows, over that of independent steps
  std::optional<Stretch> stretch;
  std::vector<Spike> spikes;  // outside of the stretch, ascending
  std::vector<NoiseWindow> windows;
  std::vector<BandPoint> band;  // empty unless it is kept

  bool differs() const { return stretch || !spikes.empty(); }
  std::optional<std::int64_t> first() const;
};

/// Needs kJudgedSteps steps.
NoiseVerdict judge_noise(const CommonSteps& common, bool keep_band);

}  // namespace tidemark
