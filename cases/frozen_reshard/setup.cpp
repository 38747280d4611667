#include "cases/frozen_reshard/setup.h"

#include <algorithm>

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
  no_sync = value("no_sync");
  thaw_step = value("thaw_step");
  pattern = static_cast<Pattern>(value("pattern"));
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
    if (pattern != Pattern::adapters) continue;
    all.push_back({{{layer + ".adapter_fc_a.weight", {adapter_rank, hidden}},
                    {layer + ".adapter_fc_b.weight", {hidden, adapter_rank}}},
                   true});
  }
  return all;
}

std::vector<bool> Setup::frozen(int step) const {
  std::vector<bool> all;
  for (std::int64_t i = 0; i < layers; ++i) {
    switch (pattern) {
      case Pattern::even:
        all.push_back(i % 2 == 0);
        break;
      case Pattern::all_but_last:
        all.push_back(i + 1 < layers);
        break;
      case Pattern::adapters:
        all.insert(all.end(), {true, false});
        break;
      case Pattern::prefix:
        all.push_back(i < layers / 2);
        break;
      case Pattern::suffix:
        all.push_back(i >= layers - layers / 2);
        break;
      case Pattern::all_but_first:
        all.push_back(i > 0);
        break;
      case Pattern::odd:
        all.push_back(i % 2 == 1);
        break;
    }
  }
  if (thaw_step > 0 && step >= thaw_step) {
    const auto first_frozen = std::ranges::find(all, true);
    const auto first_trained = std::ranges::find(all, false);
    *first_frozen = false;
    *first_trained = true;
  }
  return all;
}

std::vector<bool> Setup::synced(int step, std::int64_t microbatch) const {
  const bool last = microbatch + 1 == microbatches;
  std::vector<bool> all;
  bool withheld = true;
  for (const bool is_frozen : frozen(step)) {
    all.push_back(is_frozen || last || no_sync == 0 || (no_sync == 2 && !withheld));
    if (!is_frozen) withheld = !withheld;
  }
  return all;
}

std::string Setup::suffix(std::int64_t microbatch) const {
  return microbatches == 1 ? "" : "/" + std::to_string(microbatch);
}

}  // namespace tidemark::frozen_reshard
