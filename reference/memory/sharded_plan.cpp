#include "reference/memory/sharded_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tidemark::reference {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& all) {
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

}  // namespace

std::string unit_name(std::size_t index) { return "unit " + std::to_string(index); }

ShardedPlan::ShardedPlan(const std::vector<UnitShape>& units, const ShardingOptions& options,
                         std::int64_t ranks, std::int64_t rank, bool instant,
                         const DeviceFacts& device)
    : Replay(device, ranks, instant), options_(options) {
  for (const auto& unit : units) {
    units_.emplace_back();
    auto parameters = unit.parameters;
    if (flat()) {
      parameters = {{0, 1}};
      for (const auto& [rows, columns] : unit.parameters) parameters[0][0] += rows * columns;
    }
    units_.back().symbols = unit.symbols;
    units_.back().replicated = unit.replicated;
    if (unit.replicated) {
      for (const auto& [rows, columns] : unit.parameters)
        resting_.push_back(hold({rows * columns * options.stored, "rest"}));
      continue;
    }
    for (const auto& [rows, columns] : parameters) {
      const auto shard = divided(rows, ranks);
      const auto own = flat() ? shard : std::clamp<std::int64_t>(rows - rank * shard, 0, shard);
      units_.back().parts.push_back({.numel = rows * columns,
                                     .padded = shard * columns,
                                     .own = own * columns,
                                     .symbol = unit.symbols.whole,
                                     .root = unit.symbols.root});
      resting_.push_back(hold({shard * columns * options.stored, "rest"}));
    }
  }
}

ShardedPlan::Tensor ShardedPlan::hold(const Amount& amount, Stream stream) {
  reached_[stream][stream] = memory_.enqueue(stream);  // by an operator that fills it
  return {take(amount, stream), [this](auto* block) { memory_.free(block); }};
}

void ShardedPlan::multiplied(bool& before) {
  if (!std::exchange(before, true)) resting_.push_back(hold({device_.workspace_bytes, "rest"}));
}

void ShardedPlan::call(const char* what, std::size_t unit) {
  expected_.calls.push_back({what, unit_name(unit)});
}
void ShardedPlan::moment(const std::string& name) {
  expected_.moments.push_back({name + suffix_, memory_.allocated_now(), memory_.active_now()});
}

std::vector<std::int64_t> ShardedPlan::chunks(const Unit& unit, std::int64_t element) {
  std::vector<std::int64_t> all;
  for (const auto& part : unit.parts) all.push_back(part.padded * element);
  return all;
}

ShardedPlan::Tensor ShardedPlan::flat_buffer(const Unit& unit, Stream stream) {
  const Amount bytes(ranks_ * sum(chunks(unit, options_.gathered)), unit.symbols.buffer);
  if (options_.layout != GatherLayout::two_buffers) return hold(bytes, stream);
  auto& [buffer, size] = buffers_[next_buffer_];
  next_buffer_ = 1 - next_buffer_;
  if (size < bytes) {
    buffer.reset();
    buffer = hold(bytes);
    size = bytes;
  }
  return buffer;
}

void ShardedPlan::waits_for(Stream waiting, Stream waited) {
  bool waits = false;
  for (const auto& [stream, count] : reached_[waited]) {
    auto& reached = reached_[waiting][stream];
    waits = waits || reached < count;
    reached = std::max(reached, count);
  }
  if (!waits) return;
  const auto position = memory_.enqueue(waiting);
  waits_.push_back({waiting, position, reached_[waiting]});
  reached_[waiting][waiting] = position;
}

// A wait is over when what it waits for is, and what came before it on its stream.
void ShardedPlan::host_waits_for(const Reached& operations) {
  for (const auto& [stream, count] : operations) done_[stream] = std::max(done_[stream], count);
  std::erase_if(waits_, [&](const Wait& wait) {
    for (const auto& [stream, count] : wait.needs)
      if (done_[stream] < count) return false;
    done_[wait.stream] = std::max(done_[wait.stream], wait.position);
    return true;
  });
  for (const auto& [stream, count] : done_) memory_.reached(stream, count);
}

void ShardedPlan::limit_in_flight() {
  if (options_.in_flight_limit == 0 || std::ssize(in_flight_) < options_.in_flight_limit) return;
  host_waits_for(in_flight_.front());
  in_flight_.pop_front();
}

void ShardedPlan::unshard(std::size_t k) {
  auto& unit = units_[k];
  if (unit.gathering || unit.unsharded) return;
  call("unshard", k);
  unit.gathering = true;
  if (flat()) {
    limit_in_flight();
    auto& part = unit.parts[0];
    part.whole = hold({ranks_ * part.padded * options_.gathered, part.symbol}, communication);
    return;
  }
  if (ranks_ == 1) return;
  limit_in_flight();
  const auto stream = options_.layout == GatherLayout::separate_streams ? copy_in : compute;
  Tensor converted;
  if (options_.stored != options_.gathered)
    converted = hold(sum(chunks(unit, options_.gathered)), stream);
  unit.flat = flat_buffer(unit, stream);
  converted.reset();
  gathers_ = memory_.enqueue(communication);
  if (options_.records()) memory_.record(unit.flat.get(), communication);
}

// Out of the flat buffer into the parameters, with a table on the device of which block of threads
// copies what.
void ShardedPlan::copy_out(Unit& unit) {
  Tensor converted;
  for (auto& part : unit.parts) {
    if (ranks_ == 1 && options_.stored != options_.gathered)
      converted = hold(part.padded * options_.gathered);
    part.whole = hold({ranks_ * part.padded * options_.gathered, part.symbol}, compute);
  }
  if (ranks_ > 1)
    hold({copy_out_table(chunks(unit, options_.gathered), ranks_, device_),
          unit.symbols.copied_out});
}

void ShardedPlan::wait(std::size_t k) {
  auto& unit = units_[k];
  if (!unit.gathering) return;
  unit.gathering = false;
  unit.unsharded = true;
  if (flat()) return waits_for(compute, communication);
  const bool forward = unit.state == State::forward;
  Tensor before;
  if (forward) before = std::move(deferred_);
  copy_out(unit);
  if (ranks_ > 1) in_flight_.push_back({{communication, gathers_}});
  if (forward && options_.layout == GatherLayout::separate_streams) deferred_ = unit.flat;
  unit.flat.reset();
}

void ShardedPlan::reshard(std::size_t k) {
  auto& unit = units_[k];
  if (unit.state == State::forward && !options_.reshard_after_forward) return;
  if (!unit.unsharded) return;
  if (flat()) {
    // Told by its accumulated gradient, on the stream of that.
    const auto stream =
        unit.state == State::post_backward && !unit.frozen ? communication : compute;
    in_flight_.push_back(reached_[stream]);
    memory_.record(unit.parts[0].whole.get(), stream);
  }
  for (auto& part : unit.parts) part.whole.reset();
  unit.unsharded = false;
  call("reshard", k);
}

void ShardedPlan::pre_forward(std::size_t k, std::int64_t microbatch, int inputs_with_gradient) {
  auto& unit = units_[k];
  if (unit.replicated) return;
  unit.state = State::forward;
  memory_.at("forward of " + unit_name(k));
  unshard(k);
  wait(k);
  if (unit.frozen && options_.hooks_frozen() && inputs_with_gradient > 0)
    unit.calls.push_back({.microbatch = microbatch, .expected = inputs_with_gradient});
}

void ShardedPlan::post_forward(std::size_t k, bool output_gradient) {
  if (units_[k].replicated) return;
  reshard(k);
  units_[k].awaited = output_gradient;
  units_[k].turns.push_back(order_.size());
  order_.push_back(k);
  units_[k].state = State::idle;
}

void ShardedPlan::pre_backward(std::size_t k, std::int64_t microbatch) {
  auto& unit = units_[k];
  if (unit.replicated) return;
  memory_.at("backward of " + unit_name(k));
  if (unit.state != State::pre_backward) {
    unit.state = State::pre_backward;
    unshard(k);
    wait(k);
    if (!unit.turns.empty()) {
      const auto turn = unit.turns.back();
      unit.turns.pop_back();
      if (turn > 0 && options_.backward_prefetch && (units_[order_[turn - 1]].awaited || !flat()))
        unshard(order_[turn - 1]);
    }
  }
  for (auto& hooked : unit.calls) hooked.begun = hooked.begun || hooked.microbatch == microbatch;
  call("backward", k);
  moment(unit_name(k));
}

void ShardedPlan::post_backward(std::size_t k) {
  auto& unit = units_[k];
  unit.state = State::post_backward;
  if (!unit.synced) return reshard(k);
  std::vector<Tensor> gradients;
  std::vector<std::int64_t> shards;  // elements of those that have a gradient
  for (auto& part : unit.parts) {
    if (!part.gradient) continue;
    gradients.push_back(std::move(part.gradient));
    shards.push_back(part.padded);
    part.gradient.reset();
  }
  reshard(k);
  if (gradients.empty()) return;
  if (flat()) return reduce_flat(k, std::move(gradients[0]));
  reducing_.reset();
  call("reduce", k);
  auto input = hold({ranks_ * sum(shards) * options_.reduced, unit.symbols.reduced}, compute);
  std::vector<std::int64_t> bytes;
  for (const auto shard : shards) bytes.push_back(shard * options_.reduced);
  hold({copy_in_table(bytes), unit.symbols.copied_in});
  const auto last = ranks_ > 1 ? gradients.back() : Tensor();
  gradients.clear();
  auto output = hold({sum(shards) * options_.reduced, unit.symbols.shard}, reduction);
  if (options_.stored != options_.reduced)
    output = hold({sum(shards) * options_.stored, unit.symbols.shard}, reduction);
  if (!unit.sharded_gradient) unit.sharded_gradient = output;  // else added to it
  reducing_ = std::move(input);
}

// Padded where the ranks do not divide it.
void ShardedPlan::reduce_flat(std::size_t k, Tensor gradient) {
  auto& unit = units_[k];
  const auto& part = unit.parts[0];
  call("reduce", k);
  waits_for(reduction, communication);
  Tensor padded;
  if (ranks_ * part.padded > part.numel)
    padded = hold({ranks_ * part.padded * options_.reduced, unit.symbols.reduced}, reduction);
  const auto output = hold({part.padded * options_.reduced, unit.symbols.shard}, reduction);
  if (!unit.sharded_gradient) unit.sharded_gradient = output;  // else added to it
  reached_[reduction][reduction] = memory_.enqueue(reduction);
  memory_.record(gradient.get(), reduction);
}

void ShardedPlan::gradient_of_input(std::size_t k, std::int64_t microbatch, bool shared) {
  for (std::size_t i = 0; i < units_[k].calls.size(); ++i) {
    auto& hooked = units_[k].calls[i];
    if (!shared && hooked.microbatch != microbatch) continue;
    call("hook", k);
    if (options_.frozen == FrozenReshard::input_hooks && !hooked.begun) continue;
    if (std::exchange(hooked.backward, microbatch) != microbatch) hooked.arrived = 0;
    if (++hooked.arrived == hooked.expected) post_backward(k);
  }
}

void ShardedPlan::end_backward() {
  expected_.calls.push_back({"end of backward", "step"});
  moment("end of backward");
  memory_.at("end of backward");
  if (flat()) waits_for(compute, communication);
  if (flat()) waits_for(compute, reduction);
  for (std::size_t k = 0; k < units_.size(); ++k) {
    auto& unit = units_[k];
    if (unit.replicated) continue;
    const bool reached = unit.state == State::pre_backward || unit.state == State::post_backward;
    const bool kept = unit.frozen && (options_.frozen == FrozenReshard::never ||
                                      (options_.catch_all_misses && !reached));
    if (unit.state != State::post_backward && !kept) post_backward(k);
    unit.state = State::idle;
    unit.flat.reset();
    unit.gathering = false;
    unit.turns.clear();
    std::erase_if(unit.calls, [&](const HookedCall& c) { return c.arrived == c.expected; });
  }
  order_.clear();
  reducing_.reset();
}

void ShardedPlan::adam(const std::vector<Part*>& parts) {
  std::vector<Tensor> roots;
  for (auto* part : parts) {
    if (std::exchange(part->has_state, true)) continue;
    for (int moment = 0; moment < 2; ++moment)
      resting_.push_back(hold({part->own * options_.stored, "rest"}));
  }
  for (const auto* part : parts) roots.push_back(hold({part->own * options_.stored, part->root}));
}

}  // namespace tidemark::reference
