// The memory of sharded units on paper: what is gathered, copied out, resharded and reduced, when
// and on which stream, as FSDP2 does it (torch/distributed/fsdp/_fully_shard), or with
// GatherLayout::flat FSDP1 (torch/distributed/fsdp/_runtime_utils.py); replayed in the model of the
// caching allocator. With it the calls in their order. The plan of a case derives from
// it and says what the operators of its model take. Nothing here is measured.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/parallel/policies.h"
#include "reference/memory/replay.h"

namespace tidemark::reference {

/// Prediction for the last step.
struct ShardedPrediction {
  Predicted predicted;
  struct Residency {
    std::string name;
    Account allocated, active;
  };
  std::vector<Residency> moments;  // a unit's backward begins; backward ends, before the catch-all
  struct Call {
    std::string op, unit;
  };
  std::vector<Call> calls;  // unshard, reshard, reduce, hook, backward, end of backward
};

/// Name of a unit in calls and moments.
std::string unit_name(std::size_t index);

class ShardedPlan : protected Replay {
 protected:
  enum class State { idle, forward, pre_backward, post_backward };

  /// Symbols of a unit's memory in accounts: gathered parameters, Adam's square roots of its
  /// shards, its buffer and the table of the copy out of that, the input of its reduce-scatter with
  /// the table of the copy into it, and its sharded gradient.
  struct Symbols {
    std::string_view whole, root, buffer, copied_out, reduced, copied_in, shard;
  };
  struct UnitShape {
    std::vector<std::array<std::int64_t, 2>> parameters;  // rows, columns; sharded by rows
    Symbols symbols = {};
    bool replicated = false;  // whole on every rank, frozen, and never gathered
  };
  struct Part {
    std::int64_t numel, padded, own;  // of the whole, a padded shard, this rank's rows
    std::string_view symbol = {}, root = {};
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
    std::vector<Part> parts;
    Symbols symbols;
    bool replicated = false;
    bool frozen = false, synced = true, unsharded = false, gathering = false;
    bool awaited = true;  // the output of its last forward needs a gradient
    State state = State::idle;
    Tensor flat, sharded_gradient;
    std::vector<std::size_t> turns;  // of its forwards in the step's order
    std::vector<HookedCall> calls;
  };

  /// `instant`: the device does everything at once, otherwise nothing before the host waits for it.
  ShardedPlan(const std::vector<UnitShape>& units, const ShardingOptions& options,
              std::int64_t ranks, std::int64_t rank, bool instant, const DeviceFacts& device);

  Tensor hold(const Amount& amount, Stream stream = compute);
  void multiplied(bool& before);

  /// Ahead of time.
  void unshard(std::size_t k);
  /// `inputs_with_gradient` carry hooks, where the unit is frozen and hooks reshard.
  void pre_forward(std::size_t k, std::int64_t microbatch = 0, int inputs_with_gradient = 0);
  void post_forward(std::size_t k, bool output_gradient = true);
  void end_forward() { deferred_.reset(); }
  void pre_backward(std::size_t k, std::int64_t microbatch = 0);
  void post_backward(std::size_t k);
  void end_backward();
  bool flat() const { return options_.layout == GatherLayout::flat; }
  /// True if an identity node on the unit's input marks the end of its backward.
  bool has_node(const Unit& unit) const {
    return unit.frozen ? options_.frozen == FrozenReshard::input_node : !flat();
  }
  /// The gradient of an input is there. A microbatch's own is seen by its own call alone, a shared
  /// one by every call whose backward is to come.
  void gradient_of_input(std::size_t k, std::int64_t microbatch, bool shared);
  /// Work that the host waits for on the one stream is then known to be done on the other, too.
  void waits_for(Stream waiting, Stream waited);
  /// One step of Adam over this rank's rows, tensor by tensor: two moments each from the first step
  /// on, and a square root each.
  void adam(const std::vector<Part*>& parts);

  const ShardingOptions options_;
  ShardedPrediction expected_;
  std::vector<Unit> units_;
  std::vector<Tensor> resting_;
  std::string suffix_;  // of the moments of this backward

 private:
  void call(const char* what, std::size_t unit);
  void moment(const std::string& name);
  static std::vector<std::int64_t> chunks(const Unit& unit, std::int64_t element);
  Tensor flat_buffer(const Unit& unit, Stream stream);
  void wait(std::size_t k);
  void copy_out(Unit& unit);
  void limit_in_flight();
  void reduce_flat(std::size_t k, Tensor gradient);
  void reshard(std::size_t k);

  std::vector<std::size_t> order_;  // of the forwards
  Tensor deferred_, reducing_;      // a buffer copied out of, a reduce-scatter's input
  std::array<std::pair<Tensor, std::int64_t>, 2> buffers_{};  // persistent, with their bytes
  std::size_t next_buffer_ = 0;
  std::int64_t gathers_ = 0;
  using Reached = std::map<Stream, std::int64_t>;  // operations of each stream
  struct Wait {
    Stream stream;
    std::int64_t position;
    Reached needs;
  };
  void host_waits_for(const Reached& operations);
  std::map<Stream, Reached> reached_;  // that a stream is behind
  Reached done_;                       // that the host knows of
  std::vector<Wait> waits_;            // that are not over
  std::deque<Reached> in_flight_;
};

}  // namespace tidemark::reference
