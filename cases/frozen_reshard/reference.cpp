#include "cases/frozen_reshard/reference.h"

#include <cmath>

#include "cases/frozen_reshard/setup.h"
#include "cases/numbers.h"
#include "reference/linear_chain.h"

namespace tidemark::frozen_reshard {

Oracle oracle(const Trial& trial) {
  const auto setup = setup_of(trial, {});
  reference::LinearChainRun run{.layers = setup.layers,
                                .hidden = setup.hidden,
                                .adapter_rank = setup.adapter_rank,
                                .shared_input = setup.shared_input,
                                .microbatches = setup.microbatches,
                                .rows = setup.rows * trial.ranks,
                                .steps = trial.steps,
                                .seed = trial.seed,
                                .frozen = {}};
  const auto shapes = shape_of(setup).units();
  for (const auto& step : setup.steps) {
    auto& by_parameter = run.frozen.emplace_back();
    for (std::size_t i = 0; i < shapes.size(); ++i)
      by_parameter.insert(by_parameter.end(), shapes[i].size(), step.frozen[i]);
  }
  const auto result = reference::train(run);
  Oracle oracle = oracle_of(result);
  // A path through the chain has 2 products a layer at most and the means, and comes back: 4 L + 4
  // roundings of sums of `hidden` terms, each off by about sqrt(hidden) half-units in the last
  // place (rounding errors add up like a random walk). The loss is a mean whose terms cancel; the
  // reference knows by how much.
  const auto depth = static_cast<double>(4 * setup.layers + 4);
  oracle.tolerance = unit_roundoff(trial["precision"] == 0) * depth *
                     std::sqrt(static_cast<double>(setup.hidden)) * result.condition;
  oracle.why =
      "u (4 layers + 4) sqrt(hidden) c: rounding of the sums on a path forth and back, u the unit "
      "roundoff, c = mean |y| / |mean y| of the output y, by which the loss cancels";
  return oracle;
}

}  // namespace tidemark::frozen_reshard
