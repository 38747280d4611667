#include <utility>

#include "cases/zero_bubble_detach/forms.h"

namespace tidemark::zero_bubble_detach {

HeldStage::HeldStage(const Sizes& z, const StagePolicy& its, const PipelineSchedule& schedule,
                     const StagePlace& place)
    : StagePlace(place),
      policy(its),
      floats(z.norms_in_floats),
      blocks(static_cast<double>(end_layer - first_layer)),
      again(static_cast<double>(checkpointed_blocks(z, place))),
      again_inner(again - (z.checkpointed(first_layer) ? 1 : 0)),
      runs_a_block(z.runs_a_block(policy)),
      splits(splits_backward(schedule.kind)) {
  if (policy.habits.hand_over != HandOver::moved) {
    const bool stays = policy.habits.hand_over == HandOver::stays;
    input_handed = std::exchange(input_stays, false) && stays;
    output_handed = std::exchange(output_stays, false) && stays;
  }
  input_leaks = number > 1 && input_stays;
}

Terms HeldStage::graph() const {
  Terms t{{"a_n", blocks - again + again * runs_a_block}, {"x", again_inner}};
  if (last && floats) t["y"] = t["s"] = 1;  // the norm at the head, except its weight
  return t;
}

Terms HeldStage::of_loss() const {
  const bool split = splits && !first;
  Terms t{{"loss", !policy.backward_cycle || split ? 1 : 0}};
  if (!split || !keeps_loss_graph()) return t;
  if (policy.clean_hooks && policy.detach_last) t = graph();
  t["loss"] = t["logp"] = 1;
  return t;
}

Terms HeldStage::leaked() const {
  Terms t;
  if (first || !splits) {
    if (!policy.backward_cycle) return t;
    // The root, and its gradient where that is in no receive buffer.
    if (last)
      t["loss"] = 1;
    else
      t["x"] = output_stays ? 2 : 1;
  } else if (policy.never_collects) {
    t = graph();
    // The stage's own input is held by its node in the graph in any case.
    t["x"] += input_leaks ? 1 : 0;
    // The gradients that the input pass keeps for the weight pass, unless in a receive buffer.
    t["g"] += blocks;
    t["x"] += blocks - 1 + (last || output_stays ? 1 : 0);
    if (last) t["logits"] += 1, t["x"] += 1;
  }
  return t;
}

Ledger::Ledger(const TensorBytes& tensors, std::map<std::string, Terms> parts)
    : parts_(std::move(parts)) {
  constexpr Bytes kMiB = 1 << 20;
  for (const auto& [symbol, each] : tensors) {
    auto& [requested, rounded, unsplit] = bytes_[symbol];
    for (const Bytes bytes : each) {
      const Bytes granules = (bytes + 511) / 512 * 512;
      requested += static_cast<double>(bytes);
      rounded += static_cast<double>(granules);
      unsplit += static_cast<double>(granules + (granules > kMiB ? kMiB : 0));
    }
  }
}

void Ledger::add(const Terms& terms, double count) {
  for (const auto& [symbol, n] : terms) now_[symbol] += count * n;
}

void Ledger::open(const std::string& symbol) {
  drop(symbol);
  add(parts_.at(symbol));
}

void Ledger::close(const std::string& symbol) {
  take(symbol);
  add(parts_.at(symbol), -1);
}

void Ledger::moment(const std::string& where) {
  std::array<double, 3> sums{};
  for (const auto& [symbol, count] : now_) {
    if (count == 0) continue;
    const auto& bytes = bytes_.at(symbol);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += count * bytes[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] > highest_[i].bytes) highest_[i] = {where, now_, sums[i]};
}

}  // namespace tidemark::zero_bubble_detach
