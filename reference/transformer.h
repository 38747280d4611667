// Training of a stack of Llama blocks (RMSNorm, causal attention with grouped queries, RMSNorm,
// SwiGLU; no biases, no positions), loss = mean square of the output over all microbatches, with
// Adam, in double precision. Shares nothing with the case but PyTorch's operators and the initial
// numbers (reference/deterministic.h).
#pragma once

#include <cstdint>
#include <span>

#include "reference/training.h"

namespace tidemark::reference {

/// Shape of causal attention with grouped queries. A row of queries is a token with all its heads.
struct Heads {
  std::int64_t sequence, batch, heads, kv_heads, head;  // head: elements of one
  bool sequence_slower;  // row = token * batch + sequence, else the other way
};

inline constexpr std::size_t kBlockWeights = 9;

/// x + wo attention(wq n, wk n, wv n), n = norm(x); then x + w_down swiglu(w_gate n, w_up n), n =
/// norm(x). `weights`, flat: attention_norm [h], query [h, h], key and value [kv, h], out [h, h],
/// mlp_norm [h], gate and up [f, h], down [h, f]; with `input_first` out and down the other way.
at::Tensor transformer_block(Noise& noise, const at::Tensor& x, std::span<const at::Tensor> weights,
                             const Heads& heads, bool input_first);

struct TransformerRun {
  std::int64_t layers = 1, hidden = 8, ffn = 8, heads = 1, kv_heads = 1;
  std::int64_t sequence = 1, batch = 1;  // a microbatch is sequence * batch rows, sequence slower
  std::int64_t microbatches = 1;
  int steps = 1;
  std::uint64_t seed = 0;
  Adam adam = {};
};

/// Parameters, in this order for every layer: attention_norm, fc_query, fc_key, fc_value, fc_out
/// (input first), mlp_norm, fc_gate, fc_up, fc_down (input first).
Trained train(const TransformerRun& run, Noise noise = {});

}  // namespace tidemark::reference
