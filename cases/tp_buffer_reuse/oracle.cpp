// The numbers that the variants are compared with: all microbatches on one process in double
// precision.
#include <algorithm>

#include "cases/numbers.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "reference/transformer.h"

namespace tidemark::tp_buffer_reuse {

Oracle oracle(const Trial& trial) {
  const Dimensions d(trial);
  const auto result = reference::train({.layers = d.layers,
                                        .hidden = d.hidden,
                                        .ffn = d.ffn,
                                        .heads = d.heads,
                                        .kv_heads = d.kv_heads,
                                        .sequence = d.sequence,
                                        .batch = d.batch,
                                        .microbatches = d.microbatches(),
                                        .steps = trial.steps,
                                        .seed = trial.seed});
  Oracle oracle = oracle_of(result);
  // A path through a block has four products, two norms, attention's two products and softmax and
  // the GLU, and comes back. The loss is a sum of squares and cancels nothing.
  const auto [tolerance, why] = rounding(!d.bf16, 20 * d.layers, "20 layers",
                                         std::max({d.hidden, d.ffn, d.rows()}), "longest sum");
  oracle.tolerance = tolerance;
  oracle.why = why + kAfterAdam;
  return oracle;
}

}  // namespace tidemark::tp_buffer_reuse
