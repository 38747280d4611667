// Causal self-attention of this rank's heads, with grouped queries, over PyTorch's fused kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tidemark::tp_buffer_reuse {

/// Shape of the attention of this rank.
struct AttentionShape {
  std::int64_t sequence = 1, batch = 1;
  std::int64_t heads = 1;     // of queries
  std::int64_t kv_heads = 1;  // of keys and values; divides heads
  std::int64_t head = 1;      // elements of a head; a multiple of 8, at most 256
  std::int64_t features() const { return (heads + 2 * kv_heads) * head; }
};

/// merged [sequence * batch, features()] = (queries | keys | values), the sequence slower ->
/// [sequence * batch, heads * head]. Half precision runs the flash kernel; single precision the
/// memory-efficient one, which has no grouped queries, so that keys and values are repeated.
at::Tensor causal_attention(const at::Tensor& merged, const AttentionShape& shape);

}  // namespace tidemark::tp_buffer_reuse
