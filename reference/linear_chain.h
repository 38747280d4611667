// Training of a chain of linear layers of which some parameters are frozen, with low-rank adapters
// beside the layers where asked for, to give its input back (loss = mean square of what the output
// is beside it), with Adam, in double precision. Shares nothing with the case but PyTorch's
// operators and the initial numbers (reference/deterministic.h).
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

Trained train(const LinearChainRun& run, Noise noise = {});

/// Step (`fill`) of the weight of a layer of the chain, and of an adapter's two.
double chain_step(std::int64_t hidden, std::int64_t layer);
double adapter_step(std::int64_t hidden);

}  // namespace tidemark::reference
