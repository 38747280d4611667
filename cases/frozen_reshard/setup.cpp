#include "cases/frozen_reshard/setup.h"

#include <algorithm>

#include "harness/parallel/freezing.h"

namespace tidemark::frozen_reshard {

Setup setup_of(const Trial& trial, const Policy& policy, int rank) {
  const auto value = [&](const char* name) {
    const auto own = policy.needs.find(name);
    return own == policy.needs.end() ? trial[name] : own->second;
  };
  const auto microbatches = std::max(value("microbatches"), trial["microbatches"]);
  const auto bytes = value("precision") == 0 ? 4 : 2;
  const auto pattern = static_cast<FreezingPattern>(value("pattern"));
  Setup setup{.layers = value("layers"),
              .hidden = value("hidden"),
              .adapter_rank = pattern == FreezingPattern::adapters ? value("adapter_rank") : 0,
              .microbatches = microbatches,
              .rows = value("batch") / trial.ranks / microbatches,
              .in_flight = value("in_flight") != 0,
              .input_gradient = value("input_gradient") != 0,
              .shared_input = value("shared_input") != 0,
              .ranks = trial.ranks,
              .rank = rank,
              .instant = trial.schedule != "lagging",
              .sharding = {.reshard_after_forward = value("reshard_after_forward") != 0,
                           .stored = bytes,
                           .gathered = bytes,
                           .reduced = bytes,
                           .frozen_node = policy.frozen == FrozenReshard::input_node,
                           .frozen_hooks = policy.frozen == FrozenReshard::input_hooks ||
                                           policy.frozen == FrozenReshard::will_execute,
                           .own_backward_only = policy.frozen == FrozenReshard::input_hooks,
                           .frozen_stays = policy.frozen == FrozenReshard::never,
                           .catch_all_misses = policy.catch_all_misses},
              .steps = {}};
  const auto thaw_step = value("thaw_step");
  for (int i = 0; i < trial.steps; ++i) {
    auto& step = setup.steps.emplace_back();
    step.frozen = frozen_units(pattern, setup.layers);
    if (thaw_step > 0 && i >= thaw_step) thaw(step.frozen);
    for (std::int64_t m = 1; m <= microbatches; ++m)
      step.synced.push_back(synced_units(step.frozen, static_cast<NoSync>(value("no_sync")),
                                         /*last=*/m == microbatches));
  }
  return setup;
}

LinearChainShape shape_of(const Setup& setup) {
  return {setup.layers, setup.hidden, setup.adapter_rank, setup.shared_input};
}

ShardingOptions options_of(const Policy& policy, const Setup& setup) {
  const auto type = setup.sharding.stored == 4 ? at::kFloat : at::kBFloat16;
  return {.layout = GatherLayout::separate_streams,
          .reshard_after_forward = setup.sharding.reshard_after_forward,
          .stored = type,
          .gathered = type,
          .reduced = type,
          .frozen = policy.frozen,
          .remove_hooks = policy.remove_hooks,
          .catch_all_misses = policy.catch_all_misses,
          .root_decides_sync = policy.root_decides_sync,
          .free_regathered = !policy.stays_regathered};
}

}  // namespace tidemark::frozen_reshard
