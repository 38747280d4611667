// Forms of the scenario, derived on paper: the rules of the chain's units, and the moments of a
// step at which memory may be highest. What is alive at a moment is a sum of named amounts
// (symbols() explains them).
//
// Backward takes the units from the last to the first. It stops at the layer below which nothing
// needs a gradient. A unit is told that its backward is over by a node on its input (trained units
// always), or by hooks on its inputs, which run once the unit before has been gathered; without
// adapters that is a unit more at that moment. A unit that nothing tells waits for the end.
//
// FSDP2 holds a gathered buffer until it is copied out, in forward until the next one is, and a
// reduce-scatter's input until the next one. Of autograd's operators, a product computes the
// gradient of the weight first, then that of its input; what it saved goes when it is done.
//
// FSDP1 (layout=flat) has neither. When the products of a trained unit are over, the gradients of
// its weights become one of the flat parameter, whose accumulation tells that the unit's backward
// is over; autograd does that on the gather stream, where the weights were made as views of the
// flat parameter. What another stream has used is active, though freed, until the next allocation,
// if the device is instant.
#pragma once

#include <string>
#include <vector>

#include "cases/frozen_reshard/policy.h"
#include "harness/judge/form.h"

namespace tidemark::frozen_reshard {

/// Rules of the chain's units: which of them a backward reaches, which are whole, gathered ahead,
/// reduced or saved for when it is at a given unit. They follow from the pattern and the policy
/// alone.
class Chain {
 public:
  explicit Chain(const Setup& setup);

  const Setup& setup() const { return setup_; }
  int units() const { return static_cast<int>(frozen_.size()); }
  int layers() const { return static_cast<int>(setup_.layers); }
  int microbatches() const { return static_cast<int>(setup_.microbatches); }
  bool adapters() const { return setup_.adapter_rank > 0; }
  bool mixed() const { return setup_.mixed; }
  bool flat() const { return setup_.flat(); }
  /// An adapter's unit is inside its layer's, whose backward begins before the adapter's and ends
  /// after it.
  bool nested() const { return setup_.nested; }
  /// The place of a unit in the order in which forwards end, and the unit of a place.
  int turn(int k) const { return nested() ? k ^ 1 : k; }
  /// Symbols: a unit's parameters, what it is gathered into, its gradient before it is sharded, and
  /// the input of that's reduce-scatter.
  const char* whole_of(int k) const { return is_adapter(k) ? "P" : "U"; }
  const char* buffer_of(int k) const {
    return flat() ? whole_of(k) : is_adapter(k) ? "F" : mixed() ? "B" : "U";
  }
  const char* gradient_of(int k) const { return !is_adapter(k) ? "G" : flat() ? "f" : "g"; }
  const char* reduced_of(int k) const {
    return is_adapter(k) ? "F" : mixed() || flat() ? "R" : "U";
  }
  int gradients_of(int k) const { return is_adapter(k) && !flat() ? 2 : 1; }
  /// A flat gradient is copied for its reduce-scatter where the ranks do not divide it.
  bool padded(int k) const;
  bool is_adapter(int k) const { return adapters() && k % 2 == 1; }
  int layer(int k) const { return adapters() ? k / 2 : k; }
  bool frozen(int k) const { return frozen_[static_cast<std::size_t>(k)]; }
  /// In any step so far: it has optimizer state.
  bool ever_trained(int k) const;
  bool synced(int m, int k) const;

  /// Whether the input of the layer needs a gradient.
  bool input_gradient(int layer) const { return layer > lowest_ || setup_.input_gradient; }
  /// Backward computes a gradient of one of the unit's inputs, or of its parameters.
  bool computes(int k) const;
  /// Backward gathers the unit. It computes with it, but for a layer with a nested adapter: its
  /// output, which is the adapter's too, always needs a gradient.
  bool reached(int k) const;
  /// Something tells that its backward is over, before the end.
  bool told(int k) const;
  /// By a node on its input.
  bool has_node(int k) const {
    return frozen(k) ? setup_.sharding.frozen == FrozenReshard::input_node : !flat();
  }

  /// A forward of this microbatch comes right after a backward or the step's begin.
  bool starts(int m) const { return m == 0 || !setup_.in_flight; }
  /// Whole when the forward of a microbatch begins.
  bool whole_before_forward(int m, int j) const;
  /// Whole when its backward begins.
  bool whole_before_backward(int m, int j) const;
  /// Frozen units that stay whole when backward is over.
  bool kept(int j) const;
  /// Whole while backward is at unit k; `hooked`: the hooks that k's gathering preceded have run.
  /// `finishing`: the backward of the adapter within k is over; `hooked`: its hooks have run. Of
  /// adapters beside their layers: the hooks of the input of both have run.
  bool whole(int m, int j, int k, bool hooked, bool finishing = false) const;
  /// Its backward begins with gathering something: itself, or what comes before it.
  bool gathers(int m, int k) const;
  /// Buffers gathered ahead and not yet used, when backward is at unit k and has (`own`) gathered
  /// what comes before it: of layers, or of adapters.
  int ahead(int m, int k, bool own, bool of_adapters) const;
  /// The same of units from k on, at the end of backward.
  int ahead_at_end(int m, int k, bool of_adapters) const;

  /// Memory around a forward or a backward, while `others` microbatches and the first `layers`
  /// layers of this one are saved.
  Alive around(int others, int layers) const;

  /// An earlier backward of this step has reduced its gradient.
  bool reduced_before(int m, int k) const;
  /// An earlier backward of this step has left its gradient unreduced.
  bool held_before(int m, int k) const;
  /// The layer's input (of the first: an input of the step) is saved for its backward; of mixed
  /// layers that of the second weight.
  bool saves_input(int layer) const;
  bool saves_middle(int layer) const { return adapters() && !frozen(2 * layer + 1); }

 private:
  int gathered_ahead(int m, int k) const;  // the unit, or -1
  bool whole_nested(int m, int j, int k, bool hooked, bool finishing) const;

  const Setup setup_;
  const std::vector<bool> frozen_;  // in the last step
  int lowest_ = 0;                  // layer that backward reaches
};

struct Moment {
  std::string where;
  Alive alive;
  Alive waiting = {};  // freed, for the next allocation (where a flat layout's are named)
};

/// In the order of the step.
struct PhaseMoments {
  std::string phase;
  std::vector<Moment> highest;  // one of them is; none is within another
  std::vector<Moment> named;    // the program's moments, by their names
  std::vector<Moment> end;      // one, where the phase's end is judged
};

std::vector<PhaseMoments> moments(const Chain& chain);
std::vector<Moment> moments_of_forward(const Chain& chain, int m);
PhaseMoments moments_of_backward(const Chain& chain, int m);

}  // namespace tidemark::frozen_reshard
