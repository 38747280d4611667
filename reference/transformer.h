// Training of a stack of Llama blocks (RMSNorm, causal attention with grouped queries, RMSNorm,
// SwiGLU; no biases, no positions), loss = mean square of the output over all microbatches, with
// Adam: plain loops in double precision, gradients written out by hand. Shares nothing with the
// case but the initial numbers (reference/deterministic.h).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/training.h"

namespace tidemark::reference {

struct TransformerRun {
  std::int64_t layers = 1, hidden = 8, ffn = 8, heads = 1, kv_heads = 1;
  std::int64_t sequence = 1, batch = 1;  // a microbatch is sequence * batch rows, sequence slower
  std::int64_t microbatches = 1;
  int steps = 1;
  std::uint64_t seed = 0;
  Adam adam = {};
};

/// Parameters, in this order for every layer: attention_norm [h], fc_query [q, h], fc_key and
/// fc_value [kv, h], fc_out [q, h] (input first), mlp_norm [h], fc_gate and fc_up [f, h], fc_down
/// [f, h] (input first).
Trained train(const TransformerRun& run);

/// The loss of one microbatch set and its gradients at the given parameters, for tests.
double transformer_loss(const TransformerRun& run, const std::vector<Tensor>& parameters, int step,
                        std::vector<Values>* gradients);
std::vector<Tensor> transformer_parameters(const TransformerRun& run);

}  // namespace tidemark::reference
