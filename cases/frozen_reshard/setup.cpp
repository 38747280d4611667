#include "cases/frozen_reshard/setup.h"

#include <algorithm>

#include "reference/linear_chain_plan.h"

namespace tidemark::frozen_reshard {
namespace {

std::int64_t value_of(const Trial& trial, const Policy& policy, const std::string& name) {
  const auto own = policy.needs.find(name);
  if (own == policy.needs.end()) return trial[name];
  return name == "microbatches" ? std::max(own->second, trial[name]) : own->second;
}

}  // namespace

Setup::Setup(const Trial& trial, const Policy& policy) {
  const auto value = [&](const char* name) { return value_of(trial, policy, name); };
  layers = value("layers");
  hidden = value("hidden");
  adapter_rank = value("adapter_rank");
  microbatches = value("microbatches");
  rows = value("batch") / trial.ranks / microbatches;
  no_sync = static_cast<NoSync>(value("no_sync"));
  thaw_step = value("thaw_step");
  pattern = static_cast<FreezingPattern>(value("pattern"));
  reshard_after_forward = value("reshard_after_forward") != 0;
  in_flight = value("in_flight") != 0;
  input_gradient = value("input_gradient") != 0;
  shared_input = value("shared_input") != 0;
  half = value("precision") != 0;
}

std::vector<UnitSetup> Setup::units() const {
  std::vector<UnitSetup> all;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto layer = "layers." + std::to_string(i);
    all.push_back({{{layer + ".fc.weight", {hidden, hidden}}}});
    if (pattern != FreezingPattern::adapters) continue;
    all.push_back({{{layer + ".adapter_fc_a.weight", {adapter_rank, hidden}},
                    {layer + ".adapter_fc_b.weight", {hidden, adapter_rank}}},
                   true});
  }
  return all;
}

std::vector<bool> Setup::frozen(int step) const {
  auto all = frozen_units(pattern, layers);
  if (thaw_step > 0 && step >= thaw_step) thaw(all);
  return all;
}

std::vector<bool> Setup::synced(int step, std::int64_t microbatch) const {
  return synced_units(frozen(step), no_sync, microbatch + 1 == microbatches);
}

std::string Setup::suffix(std::int64_t microbatch) const {
  return reference::microbatch_suffix(microbatches, microbatch);
}

}  // namespace tidemark::frozen_reshard
