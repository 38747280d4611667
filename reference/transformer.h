// Training of a stack of Llama blocks (RMSNorm, causal attention with grouped queries, RMSNorm,
// SwiGLU; no biases, no positions), loss = mean square of the output over all microbatches, with
// Adam, in double precision. Shares nothing with the case but the initial numbers
// (reference/deterministic.h).
#pragma once

#include <cstdint>
#include <span>

#include "reference/training.h"

namespace tidemark::reference {

inline constexpr std::size_t kBlockWeights = 9;

/// x + wo attention(wq n, wk n, wv n), n = norm(x); then x + w_down swiglu(w_gate n, w_up n), n =
/// norm(x). `weights`: attention_norm [h], query [h, h], key and value [kv, h], out [h, h],
/// mlp_norm [h], gate and up [f, h], down [h, f]; `stored`: of out and down.
Operand transformer_block(Tape& tape, Operand x, std::span<const Operand> weights,
                          const Heads& heads, Stored stored);

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
Trained train(const TransformerRun& run);

}  // namespace tidemark::reference
