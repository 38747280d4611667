// The numbers that the variants are compared with: all microbatches on one process in double
// precision.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "cases/numbers.h"
#include "cases/tp_buffer_reuse/policy.h"
#include "reference/transformer.h"

namespace tidemark::tp_buffer_reuse {
namespace {

reference::Adam adam(const Dimensions& d, int steps) {
  reference::Adam adam{.clip = d.clip};
  if (!d.cosine) return adam;
  adam.beta2 = 0.95;
  adam.decay = 0.01;
  for (int step = 0; step < steps; ++step) {
    const double turn = std::numbers::pi * std::min(1.0, (step - 2) / 198.0);
    adam.rates.push_back(step < 2 ? 1.5e-4 * (step + 1) : 1e-5 + 1.45e-4 * (1 + std::cos(turn)));
  }
  return adam;
}

}  // namespace

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
                                      .seed = trial.seed,
                                      .adam = adam(d, trial.steps)};
  return oracle_of(reference::train(run),
                   precision_of(trial, d.element(), d.updated(), d.microbatches()),
                   [&](reference::Noise noise) { return reference::train(run, std::move(noise)); });
}

}  // namespace tidemark::tp_buffer_reuse
