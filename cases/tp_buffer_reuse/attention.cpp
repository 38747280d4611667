#include "cases/tp_buffer_reuse/attention.h"

#include <ATen/ATen.h>

namespace tidemark::tp_buffer_reuse {

at::Tensor causal_attention(const at::Tensor& merged, const AttentionShape& shape) {
  const auto [s, b, n, m, d] = shape;
  const auto parts = at::split_with_sizes(merged, {n * d, m * d, m * d}, 1);
  const bool repeats = n != m && merged.scalar_type() == at::kFloat;
  const auto by_head = [&](const at::Tensor& part, std::int64_t heads) {
    auto x = part.view({s, b, heads, d});
    if (repeats && heads != n) {
      x = x.unsqueeze(3).expand({s, b, m, n / m, d}).reshape({s, b, n, d});
    }
    return x.permute({1, 2, 0, 3});
  };
  // One after the other: backward runs in the opposite order, whatever the compiler.
  const auto q = by_head(parts[0], n), k = by_head(parts[1], m), v = by_head(parts[2], m);
  const auto out = at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                                    /*is_causal=*/true, /*scale=*/{},
                                                    /*enable_gqa=*/n != m && !repeats);
  return out.permute({2, 0, 1, 3}).reshape({s * b, n * d});
}

}  // namespace tidemark::tp_buffer_reuse
