// The model of the scenario: a chain of linear layers, a sharded unit each; with adapters a second,
// low-rank path beside every layer in a unit of its own (LoRA); optionally a further input that a
// layer adds to its output and all microbatches share (a learnt prompt, held fixed).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "cases/frozen_reshard/setup.h"
#include "harness/parallel/sharded_unit.h"

namespace tidemark::frozen_reshard {

class Chain {
 public:
  Chain(ShardedStep& step, const Setup& setup);

  /// [rows, hidden] to the same.
  at::Tensor forward(const at::Tensor& input);
  std::vector<std::unique_ptr<ShardedUnit>>& units() { return units_; }
  /// In the model's order.
  std::vector<ShardedParameter*> parameters();
  /// A layer's shared input, [hidden] each; empty without.
  std::vector<at::Tensor>& shared_inputs() { return shared_; }

 private:
  ShardedStep& step_;
  const bool adapters_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<at::Tensor> shared_;
};

}  // namespace tidemark::frozen_reshard
