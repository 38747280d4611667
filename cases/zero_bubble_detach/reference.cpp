#include "cases/zero_bubble_detach/reference.h"

#include <algorithm>
#include <cmath>

#include "cases/numbers.h"
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
  // A path forth and back through a block has at most 12 products and norms; each rounds sums of up
  // to `width` terms, off by about sqrt(width) half-units in the last place.
  const auto width =
      static_cast<double>(std::max({trial["hidden"], trial["ffn"], trial["vocabulary"]}));
  oracle.tolerance = unit_roundoff(trial["precision"] == 0) *
                     static_cast<double>(12 * trial["layers"] + 6) * std::sqrt(width);
  oracle.why =
      "u (12 layers + 6) sqrt(width): rounding of the sums on a path forth and back, u the unit "
      "roundoff, width the largest of hidden, ffn and vocabulary";
  return oracle;
}

}  // namespace tidemark::zero_bubble_detach
