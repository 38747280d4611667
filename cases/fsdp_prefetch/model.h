// The model of the scenario: LayerNorm, L blocks of x + fc2(gelu(fc1(x))) without biases,
// LayerNorm. One sharded unit a block plus the root, which holds the norms.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/parallel/sharded_unit.h"

namespace tidemark::fsdp_prefetch {

/// Names and shapes of all parameters, in the model's order.
std::vector<ParameterShape> parameter_shapes(std::int64_t layers, std::int64_t hidden);

class MultiMlp {
 public:
  /// `explicit_prefetch`: every block gathers the next one ahead in forward and the one before it
  /// in backward; otherwise forward gathers when it gets there, and backward the one before by the
  /// order of the forwards.
  MultiMlp(ShardedStep& step, std::int64_t layers, std::int64_t hidden, bool explicit_prefetch);

  at::Tensor forward(const at::Tensor& input);
  /// In the model's order.
  std::vector<ShardedParameter*> parameters();

 private:
  ShardedStep& step_;
  std::int64_t hidden_;
  ShardedUnit root_;
  std::vector<std::unique_ptr<ShardedUnit>> blocks_;
};

}  // namespace tidemark::fsdp_prefetch
