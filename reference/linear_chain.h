// Training of a chain of linear layers of which some parameters are frozen, with low-rank adapters
// beside the layers where asked for, loss = mean of the output, with Adam, in double
// precision. Shares nothing with the case but PyTorch's operators and the initial numbers
// (reference/deterministic.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/training.h"

namespace tidemark::reference {

struct LinearChainRun {
  std::int64_t layers = 1, hidden = 1;
  std::int64_t adapter_rank = 0;  // 0: no adapters
  /// The last of every so many layers adds the tensor "shared.<layer>" to its output; 0: none does.
  std::int64_t shared_every = 0;
  /// A step's batch: rows of the tensors "input.<step>.<microbatch>".
  std::int64_t microbatches = 1, rows = 1;
  int steps = 1;
  std::uint64_t seed = 0;
  /// By step: whether each parameter is frozen, in the order layer by layer, weight, adapter's A
  /// (rank x hidden), adapter's B (hidden x rank).
  std::vector<std::vector<bool>> frozen;
  Adam adam = {};
};

struct LinearChainResult : Trained {
  /// By how many times more than a random walk's the terms of the products cancel on the way to a
  /// gradient, largest of all steps: 1 in wide layers, much more than that where few terms happen
  /// to.
  double gradient_condition = 1;
};

LinearChainResult train(const LinearChainRun& run);

}  // namespace tidemark::reference
