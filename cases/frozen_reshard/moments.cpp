#include "cases/frozen_reshard/moments.h"

#include <algorithm>

namespace tidemark::frozen_reshard {

std::vector<Moment> moments_of_forward(const Chain& chain, int m);
PhaseMoments moments_of_backward(const Chain& chain, int m);

void Alive::add(const std::string& symbol, std::int64_t times) {
  if (times == 0) return;
  const auto found = std::ranges::find(times_, symbol, &decltype(times_)::value_type::first);
  if (found == times_.end()) {
    times_.emplace_back(symbol, times);
  } else {
    found->second += times;
  }
}

std::string Alive::text() const {
  std::string all;
  for (const auto& [symbol, times] : times_) {
    if (times == 0) continue;
    if (!all.empty()) all += " + ";
    all += times == 1 ? symbol : std::to_string(times) + "*" + symbol;
  }
  return all;
}

bool Alive::within(const Alive& other) const {
  return std::ranges::all_of(times_, [&](const auto& mine) {
    const auto found =
        std::ranges::find(other.times_, mine.first, &decltype(times_)::value_type::first);
    return mine.second <= (found == other.times_.end() ? 0 : found->second);
  });
}

namespace {

/// Without moments at which nothing is alive that is not at another.
std::vector<Moment> not_within_others(const std::vector<Moment>& all) {
  std::vector<Moment> kept;
  for (const auto& moment : all) {
    const auto covers = [&](const Moment& other) { return moment.alive.within(other.alive); };
    if (std::ranges::any_of(kept, covers)) continue;
    std::erase_if(kept, [&](const Moment& other) { return other.alive.within(moment.alive); });
    kept.push_back(moment);
  }
  return kept;
}

PhaseMoments moments_of_optimizer(const Chain& chain) {
  Alive alive;
  alive.add("rest", 1);
  alive.add("x", chain.microbatches() * (1 + chain.setup().input_gradient));
  alive.add("s", chain.setup().shared_input ? chain.layers() : 0);
  for (int k = 0; k < chain.units(); ++k) {
    alive.add(chain.is_adapter(k) ? "P" : "U", chain.kept(k));
    alive.add(chain.is_adapter(k) ? "V" : "S", !chain.frozen(k));
    alive.add(chain.is_adapter(k) ? "v" : "d", !chain.frozen(k));
  }
  return {"optimizer", {{"Adam's square roots", alive}}, {}, {}};
}

}  // namespace

std::vector<PhaseMoments> moments(const Chain& chain) {
  std::vector<PhaseMoments> all;
  const auto& setup = chain.setup();
  const int together = setup.in_flight ? chain.microbatches() : 1;
  for (int first = 0; first < chain.microbatches(); first += together) {
    PhaseMoments forward{"forward" + (setup.in_flight ? "" : setup.suffix(first)), {}, {}, {}};
    for (int m = first; m < first + together; ++m)
      std::ranges::move(moments_of_forward(chain, m), std::back_inserter(forward.highest));
    all.push_back(std::move(forward));
    for (int m = first; m < first + together; ++m) all.push_back(moments_of_backward(chain, m));
  }
  all.push_back(moments_of_optimizer(chain));
  for (auto& phase : all) phase.highest = not_within_others(phase.highest);
  return all;
}

}  // namespace tidemark::frozen_reshard
