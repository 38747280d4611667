// The numbers that the variants are compared with: the model's training in double precision.
#include <algorithm>

#include "cases/frozen_reshard/policy.h"
#include "cases/numbers.h"
#include "reference/linear_chain.h"

namespace tidemark::frozen_reshard {

Oracle oracle(const Trial& trial) {
  const auto setup = setup_of(trial, {});
  reference::LinearChainRun run{.layers = setup.layers * setup.weights(),
                                .hidden = setup.hidden,
                                .adapter_rank = setup.adapter_rank,
                                .shared_every = setup.shared_input ? setup.weights() : 0,
                                .microbatches = setup.microbatches,
                                .rows = setup.rows * trial.ranks,
                                .steps = trial.steps,
                                .seed = trial.seed,
                                .frozen = {}};
  for (const auto& step : setup.steps) {
    auto& by_parameter = run.frozen.emplace_back();
    for (std::size_t i = 0; i < step.frozen.size(); ++i) {
      if (setup.mixed) by_parameter.push_back(true);
      by_parameter.push_back(step.frozen[i]);
      if (setup.adapter_rank > 0 && i % 2 == 1) by_parameter.push_back(step.frozen[i]);
    }
  }
  const auto result = reference::train(run);
  Oracle oracle = oracle_of(result);
  // A path through the chain has 2 products a layer at most and the means, and comes back; a
  // weight's gradient is a sum over all rows. What happens to cancel, in sums of few terms above
  // all, the reference knows; that the loss does says nothing of its gradients.
  const auto [tolerance, why] =
      rounding(trial["precision"] == 0, 4 * run.layers + 4, "4 layers + 4",
               std::max(setup.hidden, run.rows * setup.microbatches), "longest sum");
  oracle.tolerance = tolerance * result.gradient_condition;
  oracle.why = why +
               "; times what more than a random walk's terms the products' cancel, and of the loss "
               "times mean |y| / |mean y| of the output y" +
               kAfterAdam;
  return oracle;
}

}  // namespace tidemark::frozen_reshard
