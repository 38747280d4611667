// The model of the scenario: a pipeline stage of L Llama blocks (RMSNorm, causal attention with
// grouped queries, RMSNorm, SwiGLU MLP; no biases, no positions), tensor- and sequence-parallel.
// Queries, keys and values are one column linear, gate and up another.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "harness/parallel/tensor_parallel.h"
#include "harness/scenario.h"
#include "reference/transformer_plan.h"

namespace tidemark::tp_buffer_reuse {

using Dimensions = reference::ParallelTransformer;
Dimensions dimensions(const Trial& trial);

/// Rows [begin, begin + rows) of a rank's weight are elements [offset, ...) of the parameter
/// `name`.
struct Piece {
  std::string name;
  std::int64_t begin, rows, offset;
};

struct Weight {
  at::Tensor value;  // a leaf
  std::vector<Piece> pieces;
  bool replicated = false;  // on every rank: its gradient is summed over them
};

class Stage {
 public:
  Stage(const Dimensions& sizes, TensorParallel& group, bool fused_glu);

  /// x [shard_rows, hidden] -> the same shape.
  at::Tensor forward(const at::Tensor& x);
  std::vector<Weight>& weights() { return weights_; }

 private:
  struct Block {
    at::Tensor first_norm, qkv, out, second_norm, gate_up, down;
  };

  at::Tensor add(std::int64_t rows, std::int64_t columns, std::vector<Piece> pieces);
  at::Tensor block(const Block& block, const at::Tensor& x);

  const Dimensions dimensions_;
  TensorParallel& group_;
  const bool fused_glu_;
  std::vector<Weight> weights_;
  std::vector<Block> blocks_;
};

}  // namespace tidemark::tp_buffer_reuse
