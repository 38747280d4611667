#include "cases/frozen_reshard/unit_plan.h"

#include <algorithm>
#include <utility>

#include "cases/frozen_reshard/program.h"

namespace tidemark::frozen_reshard {

using reference::divided;

UnitPlan::UnitPlan(const Trial& trial, const Policy& policy, int rank,
                   const reference::DeviceFacts& device)
    : Replay(device, trial.ranks, trial.schedule != "lagging"),
      setup_(trial, policy),
      policy_(policy),
      bytes_(setup_.element_bytes()) {
  for (const auto& unit : setup_.units()) {
    units_.push_back({.adapter = unit.adapter, .parts = {}});
    for (const auto& p : unit.parameters) {
      const auto rows = p.size[0], columns = p.size[1], shard = divided(rows, ranks_);
      const auto own = std::clamp<std::int64_t>(rows - rank * shard, 0, shard);
      units_.back().parts.push_back(
          {.numel = rows * columns, .padded = shard * columns, .own = own * columns});
      resting_.push_back(hold(shard * columns * bytes_));
    }
  }
}

UnitPlan::Tensor UnitPlan::hold(std::int64_t bytes, Stream stream, Kind kind) {
  count(kind, 1);
  Tensor tensor(take(bytes, stream), [this, kind](auto* block) {
    memory_.free(block);
    count(kind, -1);
  });
  if (memory_.allocated.current > highest_) {
    highest_ = memory_.allocated.current;
    expected_.at_peak[phase_] = alive_;
  }
  return tensor;
}

void UnitPlan::count(Kind kind, int change) {
  if (kind == Kind::unit) alive_.units += change;
  if (kind == Kind::shard) alive_.shards += change;
}

void UnitPlan::phase(const std::string& name) {
  begin(name);
  highest_ = memory_.allocated.current;
  expected_.at_peak[phase_] = alive_;
}

void UnitPlan::call(const char* what, std::size_t unit) {
  expected_.calls.push_back({what, unit_name(unit)});
}
void UnitPlan::moment(const std::string& name) {
  expected_.moments.push_back({name, memory_.allocated.current, alive_});
}

std::vector<std::int64_t> UnitPlan::chunks(const Unit& unit) const {
  std::vector<std::int64_t> all;
  for (const auto& part : unit.parts) all.push_back(part.padded * bytes_);
  return all;
}
void UnitPlan::unshard(std::size_t k) {
  auto& unit = units_[k];
  if (unit.gathering || unit.unsharded) return;
  call("unshard", k);
  unit.gathering = true;
  if (ranks_ > 1) unit.flat = hold(ranks_ * padded(unit) * bytes_, copy_in, kind(unit, Kind::unit));
}

void UnitPlan::wait(std::size_t k) {
  auto& unit = units_[k];
  if (!unit.gathering) return;
  const bool forward = unit.state == State::forward;
  Tensor before;
  if (forward) before = std::move(deferred_);
  for (auto& part : unit.parts)
    part.whole = hold(ranks_ * part.padded * bytes_, compute, kind(unit, Kind::unit));
  if (ranks_ > 1) hold(copy_out_table(chunks(unit)));
  if (forward) deferred_ = unit.flat;
  unit.flat.reset();
  unit.gathering = false;
  unit.unsharded = true;
}

void UnitPlan::reshard(std::size_t k) {
  auto& unit = units_[k];
  if (unit.state == State::forward && !setup_.reshard_after_forward) return;
  if (!unit.unsharded) return;
  for (auto& part : unit.parts) part.whole.reset();
  unit.unsharded = false;
  call("reshard", k);
}

void UnitPlan::pre_forward(std::size_t k, std::int64_t microbatch, int inputs_with_gradient) {
  auto& unit = units_[k];
  unit.state = State::forward;
  unshard(k);
  wait(k);
  if (unit.frozen && hooks() && inputs_with_gradient > 0)
    unit.calls.push_back({.microbatch = microbatch, .expected = inputs_with_gradient});
}

void UnitPlan::post_forward(std::size_t k) {
  reshard(k);
  units_[k].turns.push_back(order_.size());
  order_.push_back(k);
  units_[k].state = State::idle;
}

void UnitPlan::pre_backward(std::size_t k, std::int64_t microbatch) {
  auto& unit = units_[k];
  if (unit.state != State::pre_backward) {
    unit.state = State::pre_backward;
    unshard(k);
    wait(k);
    if (!unit.turns.empty()) {
      const auto turn = unit.turns.back();
      unit.turns.pop_back();
      if (turn > 0) unshard(order_[turn - 1]);
    }
  }
  for (auto& hooked : unit.calls) hooked.begun = hooked.begun || hooked.microbatch == microbatch;
  call("backward", k);
  moment(moment_name(setup_, k, microbatch));
}

void UnitPlan::post_backward(std::size_t k) {
  auto& unit = units_[k];
  unit.state = State::post_backward;
  if (!unit.synced) return reshard(k);
  std::vector<Tensor> gradients;
  for (auto& part : unit.parts) {
    if (part.gradient) gradients.push_back(std::move(part.gradient));
    part.gradient.reset();
  }
  reshard(k);
  if (gradients.empty()) return;
  reducing_.reset();
  call("reduce", k);
  auto input = hold(ranks_ * padded(unit) * bytes_, compute, kind(unit, Kind::unit));
  hold(copy_in_table(chunks(unit)));
  const auto last = ranks_ > 1 ? gradients.back() : Tensor();
  gradients.clear();
  auto output = hold(padded(unit) * bytes_, reduction, kind(unit, Kind::shard));
  if (!unit.sharded_gradient) unit.sharded_gradient = output;  // else added to it
  reducing_ = std::move(input);
}

void UnitPlan::gradient_of_input(std::size_t k, std::int64_t microbatch, bool shared) {
  for (std::size_t i = 0; i < units_[k].calls.size(); ++i) {
    auto& hooked = units_[k].calls[i];
    if (!shared && hooked.microbatch != microbatch) continue;
    call("hook", k);
    if (policy_.frozen == FrozenReshard::input_hooks && !hooked.begun) continue;
    if (std::exchange(hooked.backward, microbatch) != microbatch) hooked.arrived = 0;
    if (++hooked.arrived == hooked.expected) post_backward(k);
  }
}

void UnitPlan::end_backward(std::int64_t microbatch) {
  expected_.calls.push_back({"end of backward", "step"});
  moment(end_name(setup_, microbatch));
  for (std::size_t k = 0; k < units_.size(); ++k) {
    auto& unit = units_[k];
    const bool reached = unit.state == State::pre_backward || unit.state == State::post_backward;
    const bool kept = unit.frozen && (policy_.frozen == FrozenReshard::never ||
                                      (policy_.catch_all_misses && !reached));
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

}  // namespace tidemark::frozen_reshard
