// Allocations of PyTorch's fused attention kernels: flash
// (ATen/native/transformers/cuda/flash_attn/ flash_api.cpp) in half precision, memory-efficient
// (mem_eff_attention/kernel_backward.h) in single.
#pragma once

#include <cstdint>

namespace tidemark::reference {

/// Of one rank.
struct AttentionShape {
  std::int64_t batch, sequence, heads, kv_heads;
  std::int64_t head;  // elements of one
  bool bf16;          // else single precision
};

/// Bytes, of one layer.
struct AttentionPlan {
  AttentionPlan(const AttentionShape& shape, std::int64_t processors);

  std::int64_t queries, keys;  // of queries (and the output), and of keys (or values)
  bool repeats;                // keys and values are repeated for every query head,
  bool copies;                 // in memory (a single head is repeated by a stride of 0)
  std::int64_t statistics;     // log-sum-exp, kept for backward
  std::int64_t split_statistics = 0, split_output = 0;  // temporaries of a forward in several parts
  std::int64_t delta;      // backward: row sums of gradient times output
  std::int64_t workspace;  // backward: the accumulator of the queries' gradient
};

}  // namespace tidemark::reference
