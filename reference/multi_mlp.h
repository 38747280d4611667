// Training of LayerNorm, L x (x + fc2(gelu(fc1(x)))), LayerNorm, loss = mean of the output, with
// Adam: plain loops in double precision, gradients written out by hand. Shares nothing with the
// case but the initial numbers (reference/deterministic.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tidemark::reference {

struct MultiMlpRun {
  std::int64_t layers = 1, hidden = 1, rows = 1;  // rows of the whole batch
  int steps = 1;
  std::uint64_t seed = 0;
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam
};

struct Tensor {
  std::string name;
  std::vector<double> values;  // flat, row by row
};

struct MultiMlpResult {
  std::vector<double> loss;        // of every step, before its update
  double condition = 1;            // largest of all steps: mean |output| / |mean output|
  std::vector<Tensor> gradients;   // of step 0
  std::vector<Tensor> parameters;  // after the last step
};

MultiMlpResult train(const MultiMlpRun& run);

}  // namespace tidemark::reference
