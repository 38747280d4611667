#include "cases/fsdp_prefetch/plan.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <vector>

namespace tidemark::fsdp_prefetch {
namespace {

using reference::divided;
using Handle = reference::Replay::Handle;

/// A sharded unit of two parameters of equal shape.
struct Unit {
  std::int64_t numel;   // of one parameter
  std::int64_t padded;  // of one parameter's shard
  std::array<Handle, 2> whole{}, gradient{};
  bool unsharded = false;
  std::optional<Handle> flat = {};  // gathered, not yet copied out
  Handle sharded_gradient = nullptr;
};

class Plan : reference::Replay {
 public:
  Plan(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device)
      : Replay(device, trial.ranks, trial.schedule != "lagging"),
        layout_(layout),
        hidden_(trial["hidden"]),
        rows_(trial["batch"] / trial.ranks),
        reshards_(trial["reshard_after_forward"] != 0),
        stored_(trial["precision"] == 1 ? 2 : 4),
        gathered_(trial["precision"] == 0 ? 4 : 2),
        activation_(rows_ * hidden_ * gathered_) {
    const auto shard_rows = divided(hidden_, ranks_);
    own_rows_ = std::clamp<std::int64_t>(hidden_ - rank * shard_rows, 0, shard_rows);
    units_.push_back({.numel = hidden_, .padded = shard_rows});
    for (std::int64_t i = 0; i < trial["layers"]; ++i) {
      units_.push_back({.numel = hidden_ * hidden_, .padded = shard_rows * hidden_});
    }
    for (const auto& unit : units_) {
      for (int p = 0; p < 2; ++p) memory_.allocate(unit.padded * stored_, compute);
    }
  }

  Predicted run(int steps) {
    for (int i = 0; i < steps; ++i) step(i == 0);
    return std::move(predicted_);
  }

 private:
  // --- gathering
  // ---------------------------------------------------------------------------------------------------

  void gather(Unit& unit) {
    if (unit.flat || unit.unsharded) return;
    if (ranks_ == 1) {
      unit.flat = nullptr;
      return;
    }
    while (layout_.in_flight_limit > 0 && std::ssize(in_flight_) >= layout_.in_flight_limit) {
      memory_.reached(communication, in_flight_.front());
      in_flight_.pop_front();
    }
    const auto stream = layout_.gather == GatherLayout::separate_streams ? copy_in : compute;
    const auto bytes = 2 * unit.padded * gathered_;
    Handle converted = stored_ == gathered_ ? nullptr : take(bytes, stream);
    if (layout_.gather == GatherLayout::two_buffers) {
      auto& [buffer, size] = buffers_[next_];
      next_ = 1 - next_;
      if (size < bytes * ranks_) {
        drop(buffer);
        buffer = take(bytes * ranks_);
        size = bytes * ranks_;
      }
      unit.flat = nullptr;
    } else {
      unit.flat = take(bytes * ranks_, stream);
    }
    drop(converted);
    gathers_ = memory_.enqueue(communication);
    const auto reference = layout_.gather_reference.value_or(layout_.reference);
    if (layout_.gather == GatherLayout::asynchronous && reference == Reference::record_stream) {
      memory_.record(*unit.flat, communication);
    }
  }

  // Copied out of the flat buffer into the parameters, with a table on the device of which block of
  // threads copies what.
  void wait(Unit& unit, bool forward) {
    if (!unit.flat) return;
    Handle before = nullptr;
    if (forward) std::swap(before, deferred_);
    if (ranks_ == 1) {
      Handle converted = nullptr;
      for (auto& whole : unit.whole) {
        if (stored_ != gathered_) {
          const auto next = take(unit.padded * gathered_);
          drop(converted);
          converted = next;
        }
        whole = take(unit.padded * gathered_);
      }
      drop(converted);
    } else {
      for (auto& whole : unit.whole) whole = take(ranks_ * unit.padded * gathered_);
      passing(copy_out_table({unit.padded * gathered_, unit.padded * gathered_}));
      in_flight_.push_back(gathers_);
      if (forward && layout_.gather == GatherLayout::separate_streams) {
        deferred_ = *unit.flat;
      } else {
        drop(*unit.flat);
      }
    }
    unit.flat.reset();
    unit.unsharded = true;
    drop(before);
  }

  void reshard(Unit& unit) {
    for (auto& whole : unit.whole) drop(whole);
    unit.unsharded = false;
  }

  // --- the step
  // ----------------------------------------------------------------------------------------------------

  void step(bool first) {
    begin("zero_grad");
    for (std::size_t i = 1; i < units_.size(); ++i) drop(units_[i].sharded_gradient);
    drop(units_[0].sharded_gradient);
    begin("forward");
    forward(first);
    begin("backward");
    backward(first);
    begin("optimizer");
    optimizer(first);
    end();
  }

  struct Saved {  // of a block, for backward
    Handle input, wide, active;
  };

  void norm_statistics(std::array<Handle, 2>& statistics) {
    for (auto& s : statistics) s = take(rows_ * 4);  // mean and 1 / deviation, fp32
  }

  void forward(bool first) {
    replace(input_, take(rows_ * hidden_ * stored_));
    if (stored_ != gathered_) cast_input_ = take(activation_);
    gather(units_[0]);
    wait(units_[0], true);
    Handle x = take(activation_);
    norm_statistics(first_statistics_);
    for (std::size_t i = 1; i < units_.size(); ++i) {
      auto& unit = units_[i];
      gather(unit);
      wait(unit, true);
      if (layout_.explicit_prefetch && i + 1 < units_.size()) gather(units_[i + 1]);
      Saved saved{x, take(activation_), nullptr};
      if (first && i == 1) take(device_.workspace_bytes);
      saved.active = take(activation_);
      Handle out = take(activation_);
      if (reshards_) reshard(unit);
      x = take(activation_);
      drop(out);
      saved_.push_back(saved);
    }
    last_ = x;
    Handle output = take(activation_);
    norm_statistics(last_statistics_);
    if (reshards_) reshard(units_[0]);
    drop(deferred_);
    replace(output_, output);
    replace(loss_, take(gathered_));
  }

  void backward(bool first) {
    Handle one = take(gathered_);
    Handle dy = take(activation_);
    pre_backward(0);
    Handle dx = take(activation_);
    units_[0].gradient[1] = take(hidden_ * gathered_);
    drop(dy);
    drop(last_);
    for (auto& s : last_statistics_) drop(s);
    for (auto i = units_.size() - 1; i > 0; --i) {
      auto& unit = units_[i];
      auto saved = saved_.back();
      saved_.pop_back();
      pre_backward(i);
      unit.gradient[1] = take(unit.numel * gathered_);
      if (first && i == units_.size() - 1) take(device_.workspace_bytes);
      Handle dactive = take(activation_);
      drop(saved.active);
      Handle dwide = take(activation_);
      drop(dactive);
      drop(saved.wide);
      unit.gradient[0] = take(unit.numel * gathered_);
      Handle through = take(activation_);
      drop(dwide);
      drop(saved.input);
      reduce(unit);
      drop(through);  // added to dx in place
    }
    units_[0].gradient[0] = take(hidden_ * gathered_);
    drop(dx);
    drop(cast_input_);
    for (auto& s : first_statistics_) drop(s);
    reduce(units_[0]);
    drop(reducing_);
    drop(one);
  }

  void pre_backward(std::size_t i) {
    gather(units_[i]);
    wait(units_[i], false);
    // The root comes last in forward, so by that order (and by explicit prefetch) the last block is
    // next.
    const auto next = i == 0 ? units_.size() - 1 : i - 1;
    if (next > 0) gather(units_[next]);
  }

  void reduce(Unit& unit) {
    reshard(unit);
    drop(reducing_);
    reducing_ = take(ranks_ * 2 * unit.padded * 4);
    passing(copy_in_table({unit.padded * 4, unit.padded * 4}));
    drop(unit.gradient[0]);
    if (ranks_ == 1) drop(unit.gradient[1]);
    Handle out = take(2 * unit.padded * 4, reduction);
    if (stored_ != 4) {
      const auto converted = take(2 * unit.padded * stored_, reduction);
      drop(out);
      out = converted;
    }
    unit.sharded_gradient = out;
    drop(unit.gradient[1]);
  }

  void optimizer(bool first) {
    std::vector<std::int64_t> shards{own_rows_ * stored_};
    for (std::size_t i = 1; i < units_.size(); ++i) {
      shards.insert(shards.end(), 2, own_rows_ * hidden_ * stored_);
    }
    shards.push_back(own_rows_ * stored_);
    for (const auto bytes : shards) {
      if (first) take(bytes), take(bytes);
    }
    std::vector<Handle> roots;
    for (const auto bytes : shards) roots.push_back(take(bytes));
    for (auto& root : roots) drop(root);
  }

  const Layout layout_;
  const std::int64_t hidden_, rows_;
  const bool reshards_;
  const std::int64_t stored_, gathered_,
      activation_;  // bytes of an element, an element, and a layer's output
  std::int64_t own_rows_ = 0;
  std::vector<Unit> units_;  // the root first
  std::vector<Saved> saved_;
  std::array<Handle, 2> first_statistics_{}, last_statistics_{};
  Handle input_ = nullptr, cast_input_ = nullptr, output_ = nullptr, loss_ = nullptr,
         last_ = nullptr;
  Handle deferred_ = nullptr, reducing_ = nullptr;
  std::array<std::pair<Handle, std::int64_t>, 2> buffers_{};
  std::size_t next_ = 0;
  std::int64_t gathers_ = 0;
  std::deque<std::int64_t> in_flight_;
};

}  // namespace

Predicted replay(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device) {
  return Plan(trial, layout, rank, device).run(trial.steps);
}

}  // namespace tidemark::fsdp_prefetch
