#include "cases/fsdp_prefetch/reference.h"

#include <cmath>

#include "cases/numbers.h"
#include "reference/multi_mlp.h"

namespace tidemark::fsdp_prefetch {

Oracle oracle(const Trial& trial) {
  const reference::MultiMlpRun run{.layers = trial["layers"],
                                   .hidden = trial["hidden"],
                                   .rows = trial["batch"] / trial.ranks * trial.ranks,
                                   .steps = trial.steps,
                                   .seed = trial.seed};
  const auto result = reference::train(run);
  Oracle oracle = oracle_of(result);
  // A path through the model has 2 products a block and two norms, and comes back: 4 L + 4
  // roundings of sums of `hidden` terms, each off by about sqrt(hidden) half-units in the last
  // place (rounding errors add up like a random walk). The loss is a mean whose terms cancel; the
  // reference knows by how much.
  const auto depth = static_cast<double>(4 * trial["layers"] + 4);
  oracle.tolerance = unit_roundoff(trial["precision"] == 0) * depth *
                     std::sqrt(static_cast<double>(trial["hidden"]));
  oracle.loss_condition = result.condition;
  oracle.why =
      "u (4 layers + 4) sqrt(hidden): rounding of the sums on a path forth and back, u the unit "
      "roundoff; of the loss times mean |y| / |mean y| of the output y, by which it cancels";
  return oracle;
}

}  // namespace tidemark::fsdp_prefetch
