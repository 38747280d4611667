// The numbers that the variants are compared with: the whole batch on one process in double
// precision.
#include <algorithm>

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
  const auto result = reference::train(run);
  Oracle oracle = oracle_of(result);
  // A path forth and back through a block has at most 12 products and norms.
  const auto width = std::max({trial["hidden"], trial["ffn"], trial["vocabulary"]});
  const auto [tolerance, why] =
      rounding(trial["precision"] == 0, 12 * trial["layers"] + 6, "12 layers + 6", width, "width");
  oracle.tolerance = tolerance;
  oracle.why = why + ", width the largest of hidden, ffn and vocabulary";
  return oracle;
}

}  // namespace tidemark::zero_bubble_detach
