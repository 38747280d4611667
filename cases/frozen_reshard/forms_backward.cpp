#include "cases/frozen_reshard/forms.h"

namespace tidemark::frozen_reshard {
namespace {

/// Backward of one microbatch.
class Backward {
 public:
  Backward(const Chain& chain, int m) : chain_(chain), setup_(chain.setup()), m_(m) {}

  PhaseMoments moments() {
    result_.phase = "backward" + setup_.suffix(m_);
    begin();
    for (int turn = chain_.units() - 1; turn >= 0; --turn)
      if (chain_.reached(chain_.turn(turn))) unit(chain_.turn(turn));
    result_.named.push_back(
        {"end of backward" + setup_.suffix(m_), at_end(0, /*reducing=*/true), freed_last()});
    for (int k = 0; k < chain_.units(); ++k) {
      if (chain_.frozen(k) || chain_.told(k)) continue;
      if (chain_.synced(m_, k)) reduce(k, at_end(k, false));
    }
    result_.end.push_back({"the end", after(), freed_at_end()});
    return std::move(result_);
  }

 private:
  enum class Gradient { before, unreduced, over };

  const char* shard_of(int k) const { return chain_.is_adapter(k) ? "V" : "S"; }

  /// Gradients of the weights of a flat parameter.
  void add_weights(Alive& alive, int k) const {
    alive.add(chain_.is_adapter(k) ? "g" : "G", chain_.is_adapter(k) ? 2 : 1);
  }

  void add_gradient(Alive& alive, int j, Gradient progress) const {
    if (chain_.frozen(j)) return;
    const bool synced = chain_.synced(m_, j);
    const bool held = progress == Gradient::before ? chain_.held_before(m_, j)
                                                   : progress == Gradient::unreduced || !synced;
    const bool reduced = chain_.reduced_before(m_, j) || (progress == Gradient::over && synced);
    alive.add(chain_.gradient_of(j), held ? chain_.gradients_of(j) : 0);
    alive.add(shard_of(j), reduced);
  }

  /// Memory around the whole backward, while `saved` layers of this microbatch are saved and
  /// `input_gradients` gradients of its input exist.
  Alive around(int saved, int input_gradients) const {
    const int later = setup_.in_flight ? chain_.microbatches() - 1 - m_ : 0;
    const int others = setup_.in_flight ? m_ : chain_.microbatches() - 1;
    auto alive = chain_.around(later, saved);
    if (setup_.input_gradient) alive.add("x", others + input_gradients);
    return alive;
  }

  /// Gradients of the shared inputs of layers from this one on.
  void add_shared(Alive& alive, int layer) const {
    if (setup_.shared_input) alive.add("s", chain_.layers() - (m_ == 0 ? layer : 0));
  }

  void begin() {
    auto alive = around(chain_.layers(), 0);
    alive.add({{"x", 1}, {"r", 1}, {"c", 2}});
    for (int j = 0; j < chain_.units(); ++j) {
      alive.add(chain_.whole_of(j), chain_.whole_before_backward(m_, j));
      add_gradient(alive, j, Gradient::before);
    }
    if (m_ > 0) add_shared(alive, 0);
    result_.highest.push_back({"the loss's gradient", alive});
  }

  struct Place {
    bool finishing = false;    // the backward of the adapter within this unit is over
    bool summed = false;       // the hooks of the layer's own input have run
    bool hooked = true;        // the hooks that wait for this unit have run
    bool ahead = true;         // the unit before is gathered
    bool whole = true;         // this unit is
    bool saves_input = false;  // it still saves its input
    bool saves_middle = false;
    bool reducing = true;  // the input of the last reduce-scatter lives
  };

  /// When backward is at unit k: all but activations, and gradients, of its own work.
  Alive at(int k, const Place& place) const {
    const int layer = chain_.layer(k);
    const int last_begun = place.finishing && chain_.reached(k + 1) ? k + 1 : k;
    auto alive = around(layer, 0);
    alive.add({{"x", place.saves_input}, {"z", place.saves_middle}, {"c", 2}});
    for (int j = 0; j < chain_.units(); ++j) {
      if (j != k || place.whole)
        alive.add(chain_.whole_of(j),
                  chain_.whole(m_, j, k, place.hooked, place.finishing || place.summed));
      if (j == k) {
        alive.add(shard_of(j), chain_.reduced_before(m_, j));
        continue;
      }
      const bool within = chain_.nested() && chain_.layer(j) == layer && !place.finishing;
      const bool passed = j > k && chain_.reached(j) && !within;
      add_gradient(alive, j,
                   !passed          ? Gradient::before
                   : chain_.told(j) ? Gradient::over
                                    : Gradient::unreduced);
    }
    alive.add(chain_.buffer_of(0), chain_.ahead(m_, last_begun, place.ahead, false));
    alive.add(chain_.buffer_of(1), chain_.ahead(m_, last_begun, place.ahead, true));
    const bool adapter_to_come = chain_.nested() && !chain_.is_adapter(k) && !place.finishing;
    if (place.reducing) add_reducing(alive, k + 1 + adapter_to_come);
    return alive;
  }

  /// The input of the reduce-scatter that was launched last when backward has come down to unit k.
  void add_reducing(Alive& alive, int k) const {
    for (int j = chain_.flat() ? chain_.units() : k; j < chain_.units(); ++j) {
      if (chain_.frozen(j) || !chain_.told(j) || !chain_.synced(m_, j)) continue;
      return alive.add(chain_.reduced_of(j), 1);
    }
  }

  void unit(int k) {
    const int layer = chain_.layer(k);
    const bool adapter = chain_.is_adapter(k), trained = !chain_.frozen(k);
    const bool around_adapter = chain_.nested() && !adapter;
    const bool before_both = adapter || around_adapter || !chain_.adapters();
    const bool own_input = layer > 0 && trained;  // of a layer, when its adapter's is over
    const Place gathered{.hooked = false,
                         .ahead = false,
                         .saves_input = before_both ? chain_.saves_input(layer) : own_input,
                         .saves_middle = before_both && chain_.saves_middle(layer)};
    // The output's gradient, and of a layer behind its adapter the adapter's of the input.
    const bool beside =
        chain_.adapters() && !adapter && chain_.input_gradient(layer) && chain_.reached(k + 1);
    const auto held = chain_.held_before(m_, k) ? chain_.gradients_of(k) : 0;
    const auto begun = [&](const Place& place) {
      auto alive = at(k, place);
      alive.add("x", 1 + (beside && !around_adapter));
      alive.add(chain_.gradient_of(k), held);
      add_shared(alive, layer + 1);
      return alive;
    };
    if (!chain_.whole_before_backward(m_, k)) {
      auto alive = begun(gathered);
      const bool copied = setup_.ranks > 1 && !chain_.flat();
      alive.add(chain_.buffer_of(k), copied);
      alive.add(adapter ? "u" : "t", copied);
      add("gathering", k, alive);
    }
    auto ready = gathered;
    ready.ahead = true;
    result_.named.push_back({name(k), begun(ready), freed_before(k)});
    add("gathering ahead", k, begun(ready));

    Place working = ready;
    working.hooked = true;
    if (around_adapter) working = {.finishing = true, .hooked = false, .saves_input = own_input};
    if (adapter) {
      adapter_products(k, working);
    } else if (chain_.computes(k)) {
      layer_product(k, working, beside);
    }
    if (!trained || !chain_.told(k)) return;
    Place over{.finishing = around_adapter, .summed = chain_.flat(), .reducing = false};
    // A layer's is added to that of its adapter before its unit is told, unless each has a node.
    const bool apart = beside && !around_adapter && chain_.has_node(k);
    const auto done = [&] {
      auto alive = at(k, over);
      alive.add("x", chain_.input_gradient(layer) + (adapter ? chain_.computes(k - 1) : apart));
      add_shared_of(alive, k);
      // A gradient that is added to a held flat gradient lives until its accumulation is over.
      alive.add(chain_.gradient_of(k), chain_.flat() ? 1 + held : chain_.gradients_of(k));
      return alive;
    };
    if (chain_.flat()) {
      auto alive = done();
      add_weights(alive, k);
      add("flat gradient", k, alive);
    }
    over.whole = false;
    if (chain_.synced(m_, k)) reduce(k, done());
  }

  /// Shared memory of the layers from this unit's on, while its product runs. A gradient that is
  /// added to the sum of an earlier microbatch lives until then, which is before the product if the
  /// layer's input needs a gradient.
  void add_shared_of(Alive& alive, int k) const {
    const int layer = chain_.layer(k);
    if (chain_.is_adapter(k)) return add_shared(alive, layer + 1);
    add_shared(alive, layer);
    if (setup_.shared_input && m_ > 0)
      alive.add("s", !chain_.input_gradient(layer) && chain_.has_node(k));
  }

  void layer_product(int k, const Place& working, bool beside) {
    const int layer = chain_.layer(k);
    const bool trained = !chain_.frozen(k);
    auto alive = at(k, working);
    alive.add("x", 1 + beside);
    alive.add("G", chain_.held_before(m_, k));
    if (!trained && !chain_.input_gradient(layer)) {  // nothing but the shared input's gradient
      add_shared(alive, layer);
      if (m_ > 0) alive.add("s", 1);
    } else {
      alive.add("G", trained);
      alive.add("x", chain_.input_gradient(layer));
      add_shared_of(alive, k);
    }
    add("product", k, alive);
  }

  // The products of the second weight are first, since its product in forward was last.
  void adapter_products(int k, const Place& working) {
    const int layer = chain_.layer(k);
    const bool trained = !chain_.frozen(k);
    const bool held = chain_.held_before(m_, k), added = held && !chain_.flat();
    const auto add_held = [&](Alive& alive) {
      alive.add(chain_.gradient_of(k), held ? chain_.gradients_of(k) : 0);
    };
    auto second = at(k, working);
    second.add({{"x", 1}, {"z", 1}, {"g", trained}});
    add_held(second);
    add_shared(second, layer + 1);
    add("second product", k, second);

    auto without_middle = working;
    without_middle.saves_middle = false;
    auto first = at(k, without_middle);
    first.add("x", chain_.computes(k - 1) + chain_.input_gradient(layer));
    first.add("z", 1);
    first.add("g", (added ? 1 : 2) * trained);
    add_held(first);
    add_shared(first, layer + 1);
    add("first product", k, first);
  }

  /// `alive`: with its gradients, resharded.
  void reduce(int k, Alive alive) {
    alive.add(chain_.reduced_of(k), !chain_.flat() || chain_.padded(k));
    if (chain_.flat()) {
      alive.add(shard_of(k), 1);
      return add("reduced", k, alive);
    }
    auto copied = alive;
    copied.add(chain_.is_adapter(k) ? "j" : "i", 1);
    add("reducing", k, copied);
    // If a reduce-scatter is launched, the last gradient lives until then.
    alive.add(chain_.gradient_of(k), (setup_.ranks > 1) - chain_.gradients_of(k));
    alive.add(shard_of(k), 1);
    add("reduced", k, alive);
  }

  /// The end of backward has come to unit k and reshards it.
  Alive at_end(int k, bool reducing) const {
    auto alive = around(0, 1);
    alive.add("c", 2);
    add_shared(alive, 0);
    for (int j = 0; j < chain_.units(); ++j) {
      const bool resharded = j < k || (j == k && !reducing);
      alive.add(chain_.whole_of(j), resharded ? chain_.kept(j) : late(j));
      add_gradient(alive, j, chain_.told(j) || j < k ? Gradient::over : Gradient::unreduced);
    }
    alive.add(chain_.buffer_of(0), chain_.ahead_at_end(m_, k, false));
    alive.add(chain_.buffer_of(1), chain_.ahead_at_end(m_, k, true));
    if (reducing) add_reducing(alive, 0);
    return alive;
  }

  Alive after() const {
    auto alive = around(0, 1);
    add_shared(alive, 0);
    for (int j = 0; j < chain_.units(); ++j) {
      alive.add(chain_.whole_of(j), chain_.kept(j));
      add_gradient(alive, j, Gradient::over);
    }
    return alive;
  }

  /// Whole when the end of backward begins.
  bool late(int j) const {
    return chain_.reached(j) ? !chain_.told(j) : chain_.whole_before_backward(m_, j);
  }

  /// Memory that the end of unit j's backward frees, before the next allocation; for a frozen unit
  /// that hooks reshard, if they have run.
  void add_freed(Alive& alive, int j, bool hooked) const {
    if (!chain_.reached(j)) return;
    if (chain_.frozen(j)) {
      alive.add(chain_.whole_of(j), chain_.told(j) && (hooked || chain_.has_node(j)));
    } else if (chain_.synced(m_, j)) {
      alive.add(chain_.gradient_of(j), 1);
    } else {  // of the weights, which have become one
      add_weights(alive, j);
    }
  }

  /// The same when unit k's begins. The hooks of a layer with an adapter run before that of the
  /// adapter of the layer before.
  Alive freed_before(int k) const {
    Alive alive;
    if (!chain_.flat() || chain_.gathers(m_, k)) return alive;
    const int next = !chain_.adapters() || chain_.is_adapter(k) ? k + 1 : k + 2;
    if (chain_.adapters() && !chain_.nested() && !chain_.is_adapter(k) && chain_.reached(k + 1)) {
      add_freed(alive, k + 1, false);
    } else if (chain_.nested() && chain_.is_adapter(k)) {
      alive = freed_before(k - 1);
      if (next < chain_.units() && chain_.frozen(next) && !chain_.has_node(next))
        add_freed(alive, next, true);
    } else if (next < chain_.units()) {
      add_freed(alive, next, chain_.adapters() && !chain_.nested());
    }
    return alive;
  }

  /// When all have ended.
  Alive freed_last() const {
    Alive alive;
    int k = 0;
    while (k < chain_.units() && !chain_.computes(k)) ++k;
    if (chain_.flat() && k < chain_.units()) add_freed(alive, k, true);
    return alive;
  }

  Alive freed_at_end() const {
    auto alive = freed_last();
    for (int j = 0; j < chain_.units(); ++j)
      alive.add(chain_.whole_of(j), late(j) && !chain_.kept(j));
    return alive;
  }

  std::string name(int k) const { return "unit " + std::to_string(k) + setup_.suffix(m_); }
  void add(const std::string& what, int k, const Alive& alive) {
    result_.highest.push_back({what + " of " + name(k), alive});
  }

  const Chain& chain_;
  const Setup& setup_;
  const int m_;
  PhaseMoments result_;
};

}  // namespace

PhaseMoments moments_of_backward(const Chain& chain, int m) { return Backward(chain, m).moments(); }

}  // namespace tidemark::frozen_reshard
