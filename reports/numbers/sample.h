// Numbers made up for tests.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "reports/numbers/numbers.h"

namespace tidemark {

inline ShardNumbers shard_of(const std::string& name, const std::vector<float>& values,
                             std::int64_t offset = 0, bool bf16 = false) {
  ShardNumbers out{{name,
                    bf16 ? "BF16" : "F32",
                    {static_cast<std::int64_t>(values.size())},
                    std::string(values.size() * (bf16 ? 2 : 4), '\0')},
                   offset};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (bf16)  // its upper half
      std::memcpy(out.bytes.data() + 2 * i, reinterpret_cast<const char*>(&values[i]) + 2, 2);
    else
      std::memcpy(out.bytes.data() + 4 * i, &values[i], 4);
  }
  return out;
}

/// Values of sizes near 1, all different.
inline std::vector<float> wave(std::size_t size, double phase) {
  std::vector<float> out;
  for (std::size_t i = 0; i < size; ++i)
    out.push_back(static_cast<float>(std::sin(phase + static_cast<double>(i)) + 0.1));
  return out;
}

/// A rank's numbers: two gradients, two parameters, three losses.
inline NumbersLog numbers_sample(int rank = 0) {
  TrialRecord trial;
  trial.scenario = "toy";
  trial.size = "smoke";
  trial.schedule = "lagging";
  trial.mode = Mode::math;
  trial.ranks = 2;
  trial.steps = 3;
  trial.params = {{"n", 7}};
  NumbersLog log{rank_place(trial, "keep", rank)};
  log.device = "virtual h100-80g";
  log.arithmetic = "by CPU kernels";
  log.exact = true;
  log.tolerance = 1e-5;
  log.loss_condition = 2;
  log.parameter_condition = 1.5;
  log.why = "a bound on paper";
  log.loss = {0.5, 0.25, 0.125};
  log.gradients = {shard_of("fc1", wave(24, rank), 24 * rank), shard_of("fc2", wave(24, 2), 48)};
  log.parameters = {shard_of("fc1", wave(24, 3), 24 * rank),
                    shard_of("norm", {1, 0.5, 2}, 0, true)};
  return log;
}

}  // namespace tidemark
