// Training of LayerNorm, L x (x + fc2(gelu(fc1(x)))), LayerNorm to give its input back (loss = mean
// square of what the output is beside it), with Adam, in double precision. Shares nothing with the
// case but PyTorch's operators and the initial numbers (reference/deterministic.h).
#pragma once

#include <cstdint>

#include "reference/training.h"

namespace tidemark::reference {

struct MultiMlpRun {
  std::int64_t layers = 1, hidden = 1, rows = 1;  // rows of the whole batch
  int steps = 1;
  std::uint64_t seed = 0;
  Adam adam = {};
};

Trained train(const MultiMlpRun& run, Noise noise = {});

/// Step (`fill`) of a block's weights: the first one leaves its input about as large as it is, and
/// the second one is smaller, so that the sum of all blocks is as large as the first one's input
/// at any depth.
double multi_mlp_step(std::int64_t layers, std::int64_t hidden, bool second);

}  // namespace tidemark::reference
