// The numbers that the variants are compared with: the whole batch on one process in double
// precision.
#include <utility>

#include "cases/numbers.h"
#include "cases/zero_bubble_detach/policy.h"
#include "reference/language_model.h"

namespace tidemark::zero_bubble_detach {

Oracle oracle(const Trial& trial) {
  const reference::LanguageModelRun run{.transformer = trial["block"] == 0,
                                        .layers = trial["layers"],
                                        .hidden = trial["hidden"],
                                        .ffn = trial["ffn"],
                                        .heads = trial["heads"],
                                        .kv_heads = trial["kv_heads"],
                                        .vocabulary = trial["vocabulary"],
                                        .sequence = trial["sequence"],
                                        .sequences = trial["microbatch"] * trial["microbatches"],
                                        .steps = trial.steps,
                                        .seed = trial.seed};
  const std::int64_t stored = trial["precision"] == 0 ? 4 : 2;
  return oracle_of(reference::train(run),
                   precision_of(trial, stored, stored, trial["microbatches"]),
                   [&](reference::Noise noise) { return reference::train(run, std::move(noise)); });
}

}  // namespace tidemark::zero_bubble_detach
