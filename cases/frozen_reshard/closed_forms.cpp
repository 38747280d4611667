// The closed forms: what is alive at the highest moment of each phase, in units of
//   U  bytes of a layer's gathered parameters: they, the buffer they are gathered into, their
//      gradient and its reduce-scatter's input are as large;  S  of its sharded gradient
// above `rest`, what stays allocated between steps (parameters, optimizer state, inputs, loss,
// cuBLAS workspaces; frozen units that were never resharded are counted in U). How many are alive
// is counted in the plan (reference/linear_chain_plan.h). `small` is the rest of it: activations,
// adapters, tables, rounding and unsplit remainders. Reserved follows no formula: it is the
// replay's figure.
#include "cases/frozen_reshard/closed_forms.h"

#include "cases/device_facts.h"

namespace tidemark::frozen_reshard {
namespace {

using reference::LinearChainPrediction;

class Forms {
 public:
  Forms(const Trial& trial, const Policy& policy, int rank)
      : expected_(replay(trial, policy, rank, current_device_facts())) {
    const Setup setup(trial, policy);
    shard_ = reference::divided(setup.hidden, trial.ranks) * setup.hidden * setup.element_bytes();
    unit_ = shard_ * trial.ranks;
  }

  std::vector<Expectation> memory() const {
    std::vector<Expectation> all;
    for (const auto& [phase, extents] : expected_.predicted.phases) {
      if (phase == "zero_grad") continue;
      for (const Statistic statistic : kStatistics) {
        const auto peak = extents[static_cast<std::size_t>(statistic)].peak;
        all.push_back({statistic, phase, form(statistic, peak, expected_.at_peak.at(phase))});
      }
      if (!phase.starts_with("backward")) continue;
      all.push_back({Statistic::allocated, phase, replayed(extents[0].end), /*at_end=*/true});
    }
    return all;
  }

  std::vector<Expectation> trajectory() const {
    std::vector<Expectation> all;
    for (const auto& m : expected_.moments) {
      all.push_back({.statistic = Statistic::allocated,
                     .phase = {},
                     .formula = form(Statistic::allocated, m.allocated, m.alive),
                     .moment = m.name});
    }
    return all;
  }

 private:
  static Formula replayed(Bytes bytes) {
    return {"replay", {{"replay", static_cast<double>(bytes)}}};
  }

  Formula form(Statistic statistic, Bytes bytes, const reference::Composition& alive) const {
    if (statistic == Statistic::reserved) return replayed(bytes);
    const auto rest =
        expected_.predicted.rest[static_cast<std::size_t>(statistic)] - expected_.kept * unit_;
    return with_remainder(
        "rest + " + std::to_string(alive.units) + "*U + " + std::to_string(alive.shards) + "*S",
        {{"rest", static_cast<double>(rest)},
         {"U", static_cast<double>(unit_)},
         {"S", static_cast<double>(shard_)}},
        static_cast<double>(bytes), "small");
  }

  const LinearChainPrediction expected_;
  Bytes unit_, shard_;
};

}  // namespace

LinearChainPrediction replay(const Trial& trial, const Policy& policy, int rank,
                             const reference::DeviceFacts& device) {
  const Setup setup(trial, policy);
  const auto bytes = setup.element_bytes();
  reference::ShardedLinearChain chain{
      .layers = setup.layers,
      .hidden = setup.hidden,
      .adapter_rank = setup.pattern == FreezingPattern::adapters ? setup.adapter_rank : 0,
      .microbatches = setup.microbatches,
      .rows = setup.rows,
      .in_flight = setup.in_flight,
      .input_gradient = setup.input_gradient,
      .shared_input = setup.shared_input,
      .frozen = {},
      .synced = {},
      .ranks = trial.ranks,
      .rank = rank,
      .instant = trial.schedule != "lagging",
      .sharding = {.reshard_after_forward = setup.reshard_after_forward,
                   .stored = bytes,
                   .gathered = bytes,
                   .reduced = bytes,
                   .frozen_node = policy.frozen == FrozenReshard::input_node,
                   .frozen_hooks = policy.frozen == FrozenReshard::input_hooks ||
                                   policy.frozen == FrozenReshard::will_execute,
                   .own_backward_only = policy.frozen == FrozenReshard::input_hooks,
                   .frozen_stays = policy.frozen == FrozenReshard::never,
                   .catch_all_misses = policy.catch_all_misses}};
  for (int step = 0; step < trial.steps; ++step) {
    chain.frozen.push_back(setup.frozen(step));
    auto& synced = chain.synced.emplace_back();
    for (std::int64_t m = 0; m < setup.microbatches; ++m) synced.push_back(setup.synced(step, m));
  }
  return predict(chain, device);
}

Policy claim_of(const Variant& variant) {
  auto policy = variants()[variant.name];
  if (variant.role != Role::control) return policy;
  return {.needs = policy.needs};
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  const Forms forms(trial, claim_of(variant), rank);
  auto all = forms.trajectory();
  if (variant.role == Role::control) return all;
  for (auto& each : forms.memory()) all.push_back(std::move(each));
  return all;
}

}  // namespace tidemark::frozen_reshard
