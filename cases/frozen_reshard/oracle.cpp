// The numbers that the variants are compared with: the model's training in double precision.
#include <utility>

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
  const std::int64_t stored = trial["precision"] == 0 ? 4 : 2;
  return oracle_of(reference::train(run), precision_of(trial, stored, stored, setup.microbatches),
                   [&](reference::Noise noise) { return reference::train(run, std::move(noise)); });
}

}  // namespace tidemark::frozen_reshard
