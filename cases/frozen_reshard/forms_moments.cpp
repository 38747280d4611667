#include <algorithm>

#include "cases/frozen_reshard/forms.h"

namespace tidemark::frozen_reshard {

Chain::Chain(const Setup& setup) : setup_(setup), frozen_(setup.steps.back().frozen) {
  if (setup.input_gradient || setup.shared_input) return;
  lowest_ = layer(static_cast<int>(std::ranges::find(frozen_, false) - frozen_.begin()));
}

bool Chain::ever_trained(int k) const {
  return std::ranges::any_of(setup_.steps, [k](const Setup::Step& step) {
    return !step.frozen[static_cast<std::size_t>(k)];
  });
}

bool Chain::synced(int m, int k) const {
  return setup_.steps.back().synced[static_cast<std::size_t>(m)][static_cast<std::size_t>(k)];
}

bool Chain::reached(int k) const {
  return computes(k) || (nested() && !is_adapter(k) && layer(k) >= lowest_);
}

bool Chain::computes(int k) const {
  if (layer(k) < lowest_) return false;
  return input_gradient(layer(k)) || !frozen(k) || (setup_.shared_input && !is_adapter(k));
}

bool Chain::padded(int k) const {
  const auto numel = setup_.hidden * (is_adapter(k) ? 2 * setup_.adapter_rank : setup_.hidden);
  return flat() && numel % setup_.ranks != 0;
}

bool Chain::told(int k) const {
  if (flat() && !frozen(k)) return true;
  if (frozen(k) && setup_.sharding.frozen != FrozenReshard::input_node &&
      !setup_.sharding.hooks_frozen())
    return false;
  return layer(k) >= lowest_ &&
         (input_gradient(layer(k)) || (setup_.shared_input && !is_adapter(k)));
}

bool Chain::kept(int j) const {
  return frozen(j) && setup_.sharding.frozen == FrozenReshard::never &&
         (reached(j) || !setup_.sharding.reshard_after_forward);
}

bool Chain::whole_before_forward(int m, int j) const {
  return starts(m) ? kept(j) : !setup_.sharding.reshard_after_forward;
}

bool Chain::whole_before_backward(int m, int j) const {
  return starts(m) ? !setup_.sharding.reshard_after_forward : kept(j);
}

bool Chain::whole(int m, int j, int k, bool hooked, bool finishing) const {
  if (j == k) return true;
  if (nested()) return whole_nested(m, j, k, hooked, finishing);
  if (j < k || !reached(j)) return whole_before_backward(m, j);
  if (!told(j)) return true;
  if (!frozen(j) || setup_.sharding.frozen == FrozenReshard::input_node || j != k + 1) return false;
  // Its hooks wait for the gradient of its input: without adapters that of unit k's output, with
  // them what both units of the layer add up.
  return adapters() ? is_adapter(j) && !finishing : !hooked;
}

bool Chain::whole_nested(int m, int j, int k, bool hooked, bool finishing) const {
  const bool by_hooks = frozen(j) && setup_.sharding.hooks_frozen();
  if (layer(j) < layer(k) || !reached(j)) return whole_before_backward(m, j);
  if (layer(j) == layer(k)) {
    if (is_adapter(k)) return true;  // the layer itself
    if (!finishing) return whole_before_backward(m, j);
    return !told(j) || (by_hooks && !hooked);
  }
  // The hooks of a layer's inputs wait for the gradient of the output of the layer before, whose
  // unit is gathered first.
  const bool waits = layer(j) == layer(k) + 1 && !is_adapter(j) && by_hooks;
  return !told(j) || (waits && !is_adapter(k) && !finishing && !hooked);
}

int Chain::gathered_ahead(int m, int k) const {
  if ((setup_.ranks == 1 && !flat()) || !reached(k) || !starts(m)) return -1;
  // The order of the forwards ends with the last one's; before its first unit comes the last unit
  // of the one before.
  const bool another = setup_.in_flight && microbatches() > 1;
  if (!setup_.sharding.backward_prefetch) return -1;
  const int place = turn(k) > 0 ? turn(k) - 1 : another ? units() - 1 : -1;
  if (place < 0 || whole(m, turn(place), k, false)) return -1;
  return flat() && !reached(turn(place)) ? -1 : turn(place);
}

bool Chain::gathers(int m, int k) const {
  const int after = turn(k) + 1;
  const bool is_ahead = after < units() && gathered_ahead(m, turn(after)) == k;
  return gathered_ahead(m, k) >= 0 || !(whole_before_backward(m, k) || is_ahead);
}

int Chain::ahead(int m, int k, bool own, bool of_adapters) const {
  int all = 0;
  for (int from = turn(k) + !own; from < units(); ++from) {
    const int target = gathered_ahead(m, turn(from));
    if (target < 0 || is_adapter(target) != of_adapters) continue;
    all += turn(target) < turn(k) || from == 0 || !reached(target);
  }
  return all;
}

int Chain::ahead_at_end(int m, int k, bool of_adapters) const {
  int all = 0;
  for (int from = 0; from < units(); ++from) {
    const int target = gathered_ahead(m, from);
    if (target < k || is_adapter(target) != of_adapters) continue;
    all += turn(from) == 0 || !reached(target);
  }
  return all;
}

Alive Chain::around(int others, int layers) const {
  Alive alive{{"rest", 1}, {"x", microbatches()}};
  for (int l = 0; l < this->layers(); ++l) {
    const int saved = others + (l < layers);
    alive.add({{"x", saved * saves_input(l)}, {"z", saved * saves_middle(l)}});
  }
  alive.add("c", others);
  return alive;
}

bool Chain::reduced_before(int m, int k) const {
  for (int before = 0; before < m; ++before)
    if (synced(before, k)) return !frozen(k);
  return false;
}

bool Chain::held_before(int m, int k) const { return m > 0 && !frozen(k) && !synced(m - 1, k); }

bool Chain::saves_input(int layer) const {
  if (mixed()) return !frozen(layer);
  if (layer == 0) return false;
  return adapters() ? !frozen(2 * layer) || !frozen(2 * layer + 1) : !frozen(layer);
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
  alive.add("x", std::int64_t{chain.microbatches()} * (1 + chain.setup().input_gradient));
  alive.add("s", chain.setup().shared_input ? chain.layers() : 0);
  for (int k = 0; k < chain.units(); ++k) {
    alive.add(chain.whole_of(k), chain.kept(k));
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
