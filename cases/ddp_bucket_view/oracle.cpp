// The numbers that the variants are held against: the model's training in double precision.
#include "cases/ddp_bucket_view/policy.h"
#include "cases/numbers.h"
#include "reference/multi_mlp.h"

namespace tidemark::ddp_bucket_view {

Oracle oracle(const Trial& trial) {
  const auto result = reference::train({.layers = trial["layers"],
                                        .hidden = trial["hidden"],
                                        .rows = trial["rows"] * trial.ranks,
                                        .steps = trial.steps,
                                        .seed = trial.seed});
  Oracle oracle = oracle_of(result);
  // A path through the model has 2 products a block and two norms, and comes back. The loss is a
  // mean whose terms cancel; the reference knows by how much.
  const auto [tolerance, why] =
      rounding(true, 4 * trial["layers"] + 4, "4 layers + 4", trial["hidden"], "hidden");
  oracle.tolerance = tolerance;
  oracle.loss_condition = result.condition;
  oracle.why = why + "; of the loss times mean |y| / |mean y| of the output y, by which it cancels";
  return oracle;
}

}  // namespace tidemark::ddp_bucket_view
