// Training of LayerNorm, L x (x + fc2(gelu(fc1(x)))), LayerNorm, loss = mean of the output, with
// Adam, in double precision. Shares nothing with the case but PyTorch's operators and the initial
// numbers (reference/deterministic.h).
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

Trained train(const MultiMlpRun& run);

}  // namespace tidemark::reference
