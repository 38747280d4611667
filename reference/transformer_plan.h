// The memory of a training step of one pipeline stage of the model of transformer.h, tensor- and
// sequence-parallel: what is allocated and freed, when, from the algorithm and from what PyTorch's
// operators and its autograd engine do; replayed in the model of the caching allocator. Nothing
// here is measured.
#pragma once

#include <cstdint>

#include "reference/memory/attention_plan.h"
#include "reference/memory/replay.h"

namespace tidemark::reference {

/// Sizes by their names, whole and of one rank. Heads, ffn and sequence divide among the ranks.
struct ParallelTransformer {
  std::int64_t ranks = 1, layers = 1, hidden = 8, ffn = 8, heads = 1, kv_heads = 1;
  std::int64_t sequence = 1, batch = 1;  // a microbatch is sequence * batch rows
  std::int64_t in_flight = 1;            // microbatches
  bool bf16 = false;                     // else single precision

  std::int64_t element() const { return bf16 ? 2 : 4; }  // bytes
  std::int64_t head() const { return hidden / heads; }   // elements
  std::int64_t rows() const { return sequence * batch; }
  std::int64_t shard_rows() const { return rows() / ranks; }
  std::int64_t own_heads() const { return heads / ranks; }
  std::int64_t own_kv_heads() const { return kv_heads / ranks; }
  std::int64_t own_ffn() const { return ffn / ranks; }
  std::int64_t qkv() const { return (own_heads() + 2 * own_kv_heads()) * head(); }
  AttentionShape attention() const {
    return {batch, sequence, own_heads(), own_kv_heads(), head(), bf16};
  }
};

/// How its column linears gather, and what its GLU saves.
struct ColumnPolicy {
  bool function = false;    // one Function; else a differentiable gather, then a product
  bool recomputes = false;  // gathers again in backward, into a persistent buffer
  bool overlaps = false;    // on a stream of their own, into a second buffer in backward
  bool fused_glu = false;   // saves its input alone
};

/// Phases forward, backward, optimizer and zero_grad of the last step.
Predicted predict(const ParallelTransformer& model, const ColumnPolicy& policy, int steps,
                  const DeviceFacts& device);

}  // namespace tidemark::reference
