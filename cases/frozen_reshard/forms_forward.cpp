#include "cases/frozen_reshard/forms.h"

namespace tidemark::frozen_reshard {
namespace {

/// Forward of one microbatch.
class Forward {
 public:
  Forward(const Chain& chain, int m) : chain_(chain), setup_(chain.setup()), m_(m) {}

  std::vector<Moment> moments() {
    // The new input comes before the old one and its gradient go.
    auto first = around(0, 0, -1);
    first.add("x", 1 + setup_.input_gradient);
    all_.push_back({"the input" + setup_.suffix(m_), first});
    for (int k = 0; k < chain_.units(); ++k) {
      gather(k);
      if (chain_.is_adapter(k)) {
        adapter(k);
      } else {
        layer(k);
      }
    }
    auto last = around(chain_.layers(), chain_.units(), -1);
    last.add({{"x", 1}, {"r", 1}, {"c", 1}});
    all_.push_back({"the loss" + setup_.suffix(m_), last});
    return std::move(all_);
  }

 private:
  /// Memory besides the work of this layer, after `done` units have computed and while `current` is
  /// whole (-1: none). The layer of a nested adapter is whole until both have computed.
  Alive around(int layer, int done, int current) const {
    const int before = setup_.in_flight ? m_ : 0;  // microbatches whose backward is to come
    auto alive = chain_.around(before, layer);
    if (setup_.input_gradient)  // gradients of other microbatches' inputs
      alive.add("x", chain_.microbatches() - 1 - before);
    const bool later = m_ > 0 && !setup_.in_flight;
    alive.add("s", setup_.shared_input && later ? chain_.layers() : 0);
    for (int j = 0; j < chain_.units(); ++j) {
      const bool whole = j < done ? !setup_.sharding.reshard_after_forward
                                  : j == current || chain_.whole_before_forward(m_, j);
      const bool open = chain_.nested() && j == 2 * layer && j < done;
      alive.add(chain_.whole_of(j), whole || open);
      alive.add(chain_.gradient_of(j),
                later && chain_.held_before(m_, j) ? chain_.gradients_of(j) : 0);
      alive.add(chain_.is_adapter(j) ? "V" : "S", later && chain_.reduced_before(m_, j));
    }
    return alive;
  }

  /// Into a buffer.
  bool gathered(int k) const {
    return setup_.ranks > 1 && !chain_.flat() && !chain_.whole_before_forward(m_, k);
  }

  /// The buffer that the last unit before k was gathered into.
  void add_buffer_before(Alive& alive, int k) const {
    while (--k >= 0) {
      if (!gathered(k)) continue;
      return alive.add(chain_.buffer_of(k), 1);
    }
  }

  void gather(int k) {
    if (!gathered(k)) return;
    auto alive = around(chain_.layer(k), k, k);
    add_buffer_before(alive, k);
    const bool adapter = chain_.is_adapter(k);
    alive.add("x", (chain_.layer(k) > 0) + adapter);
    alive.add(chain_.buffer_of(k), 1);
    alive.add(adapter ? "u" : "t", 1);
    all_.push_back({"unit " + std::to_string(k) + " is gathered" + setup_.suffix(m_), alive});
  }

  void layer(int k) {
    auto alive = around(chain_.layer(k), k, k);
    add_buffer_before(alive, k + 1);
    alive.add("x", chain_.layer(k) > 0);
    auto sum = alive;  // with the shared input, when only what is saved is left beside it
    alive.add("x", 1 + chain_.mixed());
    all_.push_back({"product of unit " + std::to_string(k) + setup_.suffix(m_), alive});
    if (!setup_.shared_input) return;
    sum.add("x", 2 + (chain_.mixed() && chain_.saves_input(k)));
    all_.push_back({"output of unit " + std::to_string(k) + setup_.suffix(m_), sum});
  }

  void adapter(int k) {
    auto alive = around(chain_.layer(k), k, k);
    add_buffer_before(alive, k + 1);
    alive.add({{"x", (chain_.layer(k) > 0) + 2}, {"z", 1}});
    all_.push_back({"products of unit " + std::to_string(k) + setup_.suffix(m_), alive});
    // The sum of layer and adapter, whose unit is resharded.
    auto sum = around(chain_.layer(k), k + 1, -1);
    add_buffer_before(sum, k + 1);
    sum.add("x", (chain_.layer(k) > 0) + 3);
    sum.add("z", chain_.saves_middle(chain_.layer(k)));
    all_.push_back({"output of layer " + std::to_string(chain_.layer(k)) + setup_.suffix(m_), sum});
  }

  const Chain& chain_;
  const Setup& setup_;
  const int m_;
  std::vector<Moment> all_;
};

}  // namespace

std::vector<Moment> moments_of_forward(const Chain& chain, int m) {
  return Forward(chain, m).moments();
}

}  // namespace tidemark::frozen_reshard
