// The sharded units of the plan (plan.h): their memory as tensors with holders, what gathers,
// reshards and reduces them, and the calls that the program's units will tell.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cases/frozen_reshard/plan.h"

namespace tidemark::frozen_reshard {

class UnitPlan : protected reference::Replay {
 protected:
  // Memory lives as long as its last holder, as a tensor's does.
  using Tensor = std::shared_ptr<reference::Allocator::Block>;
  enum class Kind { other, unit, shard };
  enum class State { idle, forward, pre_backward, post_backward };

  struct Part {
    std::int64_t numel, padded, own;  // of the whole, a padded shard, this rank's rows
    Tensor whole, gradient;
    bool has_state = false;  // of the optimizer
  };
  struct HookedCall {  // a forward whose inputs carry hooks
    std::int64_t microbatch;
    int expected, arrived = 0;
    std::int64_t backward = -1;
    bool begun = false;  // its own backward has
  };
  struct Unit {
    bool adapter;
    std::vector<Part> parts;
    bool frozen = false, synced = true, unsharded = false, gathering = false;
    State state = State::idle;
    Tensor flat, sharded_gradient;
    std::vector<std::size_t> turns;  // of its forwards in the step's order
    std::vector<HookedCall> calls;
  };

  UnitPlan(const Trial& trial, const Policy& policy, int rank,
           const reference::DeviceFacts& device);

  Tensor hold(std::int64_t bytes, Stream stream = compute, Kind kind = Kind::other);
  static Kind kind(const Unit& unit, Kind of_layers) {
    return unit.adapter ? Kind::other : of_layers;
  }
  void phase(const std::string& name);

  void pre_forward(std::size_t k, std::int64_t microbatch, int inputs_with_gradient);
  void post_forward(std::size_t k);
  void pre_backward(std::size_t k, std::int64_t microbatch);
  void post_backward(std::size_t k);
  void end_backward(std::int64_t microbatch);

  bool hooks() const {
    return policy_.frozen == FrozenReshard::input_hooks ||
           policy_.frozen == FrozenReshard::will_execute;
  }
  /// Whether an identity node on its input tells when the unit's backward is over.
  bool has_node(const Unit& unit) const {
    return !unit.frozen || policy_.frozen == FrozenReshard::input_node;
  }
  /// The gradient of an input is there. A microbatch's own is seen by its own call alone, a shared
  /// one by every call whose backward is to come.
  void gradient_of_input(std::size_t k, std::int64_t microbatch, bool shared);

  const Setup setup_;
  const Policy policy_;
  const std::int64_t bytes_;  // of an element
  // What counts must outlive what is counted.
  Composition alive_;
  std::int64_t highest_ = 0;
  Expected expected_;
  std::vector<Unit> units_;
  std::vector<Tensor> resting_;
  Tensor deferred_, reducing_;

 private:
  void count(Kind kind, int change);
  void call(const char* what, std::size_t unit);
  void moment(const std::string& name);
  std::vector<std::int64_t> chunks(const Unit& unit) const;
  void unshard(std::size_t k);
  void wait(std::size_t k);
  void reshard(std::size_t k);

  std::vector<std::size_t> order_;  // of the forwards
};

/// Elements of a rank's padded shards of a unit.
template <class Unit>
std::int64_t padded(const Unit& unit) {
  std::int64_t all = 0;
  for (const auto& part : unit.parts) all += part.padded;
  return all;
}

}  // namespace tidemark::frozen_reshard
