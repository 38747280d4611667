// Training of a stack of Llama blocks (RMSNorm, causal attention with grouped queries, RMSNorm,
// SwiGLU; no biases, no positions), loss = mean square of the output over all microbatches, with
// Adam: plain loops in double precision, gradients written out by hand. Shares nothing with the
// case but the initial numbers (reference/deterministic.h).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/multi_mlp.h"

namespace tidemark::reference {

struct TransformerRun {
  std::int64_t layers = 1, hidden = 8, ffn = 8, heads = 1, kv_heads = 1;
  std::int64_t sequence = 1, batch = 1;  // a microbatch is sequence * batch rows, sequence slower
  std::int64_t microbatches = 1;
  int steps = 1;
  std::uint64_t seed = 0;
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // Adam
};

struct TransformerResult {
  std::vector<double> loss;        // of every step, before its update
  std::vector<Tensor> gradients;   // of step 0
  std::vector<Tensor> parameters;  // after the last step
};

/// Parameters, in this order for every layer: attention_norm [h], fc_query [q, h], fc_key and
/// fc_value [kv, h], fc_out [q, h] (input first), mlp_norm [h], fc_gate and fc_up [f, h], fc_down
/// [f, h] (input first).
TransformerResult train(const TransformerRun& run);

/// The loss of one microbatch set and its gradients at the given parameters, for tests.
double transformer_loss(const TransformerRun& run, const std::vector<Tensor>& parameters, int step,
                        std::vector<std::vector<double>>* gradients);
std::vector<Tensor> transformer_parameters(const TransformerRun& run);

}  // namespace tidemark::reference
