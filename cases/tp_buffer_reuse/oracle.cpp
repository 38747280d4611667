// The numbers that the variants are compared with: all microbatches on one process in double
// precision.
#include <utility>

#include "cases/numbers.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "reference/transformer.h"

namespace tidemark::tp_buffer_reuse {

Oracle oracle(const Trial& trial) {
  const Dimensions d(trial);
  const reference::TransformerRun run{.layers = d.layers,
                                      .hidden = d.hidden,
                                      .ffn = d.ffn,
                                      .heads = d.heads,
                                      .kv_heads = d.kv_heads,
                                      .sequence = d.sequence,
                                      .batch = d.batch,
                                      .microbatches = d.microbatches(),
                                      .steps = trial.steps,
                                      .seed = trial.seed};
  const std::int64_t stored = d.bf16 ? 2 : 4;
  return oracle_of(reference::train(run), precision_of(trial, stored, stored, d.microbatches()),
                   [&](reference::Noise noise) { return reference::train(run, std::move(noise)); });
}

}  // namespace tidemark::tp_buffer_reuse
