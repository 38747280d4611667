#include "cases/frozen_reshard/chain.h"

#include <algorithm>

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
  if (layer(k) < lowest_) return false;
  return input_gradient(layer(k)) || !frozen(k) || (setup_.shared_input && !is_adapter(k));
}

bool Chain::told(int k) const {
  if (frozen(k) && !setup_.sharding.frozen_node && !setup_.sharding.frozen_hooks) return false;
  return layer(k) >= lowest_ &&
         (input_gradient(layer(k)) || (setup_.shared_input && !is_adapter(k)));
}

bool Chain::kept(int j) const {
  return frozen(j) && setup_.sharding.frozen_stays &&
         (reached(j) || !setup_.sharding.reshard_after_forward);
}

bool Chain::whole_before_forward(int m, int j) const {
  return starts(m) ? kept(j) : !setup_.sharding.reshard_after_forward;
}

bool Chain::whole_before_backward(int m, int j) const {
  return starts(m) ? !setup_.sharding.reshard_after_forward : kept(j);
}

bool Chain::whole(int m, int j, int k, bool hooked) const {
  if (j == k) return true;
  if (j < k || !reached(j)) return whole_before_backward(m, j);
  if (!told(j)) return true;
  if (!frozen(j) || setup_.sharding.frozen_node || j != k + 1) return false;
  // Its hooks wait for the gradient of its input: without adapters that of unit k's output, with
  // them what both units of the layer add up.
  return adapters() ? is_adapter(j) : !hooked;
}

int Chain::gathered_ahead(int m, int k) const {
  if (setup_.ranks == 1 || !reached(k) || !starts(m)) return -1;
  // The order of the forwards ends with the last one's; before its first unit comes the last unit
  // of the one before.
  const bool another = setup_.in_flight && microbatches() > 1;
  const int target = k > 0 ? k - 1 : another ? units() - 1 : -1;
  return target < 0 || whole(m, target, k, false) ? -1 : target;
}

int Chain::ahead(int m, int k, bool own, bool of_adapters) const {
  int all = 0;
  for (int from = own ? k : k + 1; from < units(); ++from) {
    const int target = gathered_ahead(m, from);
    if (target < 0 || is_adapter(target) != of_adapters) continue;
    all += target < k || from == 0 || !reached(target);
  }
  return all;
}

int Chain::ahead_at_end(int m, int k, bool of_adapters) const {
  int all = 0;
  for (int from = 0; from < units(); ++from) {
    const int target = gathered_ahead(m, from);
    if (target < k || is_adapter(target) != of_adapters) continue;
    all += from == 0 || !reached(target);
  }
  return all;
}

bool Chain::reduced_before(int m, int k) const {
  for (int before = 0; before < m; ++before)
    if (synced(before, k)) return !frozen(k);
  return false;
}

bool Chain::held_before(int m, int k) const { return m > 0 && !frozen(k) && !synced(m - 1, k); }

bool Chain::saves_input(int layer) const {
  if (layer == 0) return false;
  return adapters() ? !frozen(2 * layer) || !frozen(2 * layer + 1) : !frozen(layer);
}

}  // namespace tidemark::frozen_reshard
