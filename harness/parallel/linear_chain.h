// A chain of linear layers, a sharded unit each; with adapters a second, low-rank path beside every
// layer in a unit of its own (LoRA); optionally a further input that a layer adds to its output and
// all microbatches share (a learnt prompt, held fixed).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "harness/parallel/sharded_unit.h"

namespace tidemark {

struct LinearChainShape {
  std::int64_t layers = 1, hidden = 1;
  std::int64_t adapter_rank = 0;  // 0: no adapters
  bool shared_input = false;

  /// By unit, in the order of their forwards: a layer's weight [hidden, hidden], its adapter's two.
  std::vector<std::vector<ParameterShape>> units() const;
};

class LinearChain {
 public:
  LinearChain(ShardedStep& step, const LinearChainShape& shape);

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

}  // namespace tidemark
