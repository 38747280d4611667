#include <utility>

#include "cases/zero_bubble_detach/forms.h"

namespace tidemark::zero_bubble_detach {

HeldStage::HeldStage(const Sizes& z, const StagePolicy& its, const PipelineSchedule& schedule,
                     const StagePlace& place)
    : StagePlace(place),
      policy(its),
      transformer(z.transformer),
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

// The tensors that a stage returns when the step ends, without their graph.
Terms HeldStage::returned() const {
  if (last) return {{"logits", 1}, {"loss", 1}};
  return {{"x", keeps_output() ? 1 : 0}};
}

void HeldStage::add_head_norm(Terms& t, double count) const {
  if (last && floats) t["y"] += count, t["s"] += count;
}

Terms HeldStage::forwarded() const {
  Terms t = returned();
  // Inputs of blocks; norms in floats keep none, but checkpoints do.
  if (floats && transformer)
    t["x"] += first ? again : again_inner;
  else
    t["x"] += blocks - 1 + (first ? 1 : 0);
  // The input is another stage's output, which that stage no longer keeps.
  if (input_stays && policy.roots_as_edges) t["x"] += 1;
  t["a_w"] += blocks - again;
  t["a_n"] += blocks - again;
  if (last) {
    t["x"] += 2;  // the norm's input (in floats: what it multiplies with its weight), its output
    if (!floats) t["s"] += 1;
    add_head_norm(t, 1);
    t["logp"] += 1;
  }
  return t;
}

// Adds the gradients that the input pass keeps for the weight pass.
void HeldStage::add_gradients(Terms& t) const {
  t["g"] += blocks;
  t["x"] += blocks - 1 + (last || output_stays ? 1 : 0);  // else a receive buffer
  if (last) {
    t["logits"] += 1;
    t["x"] += 1;
  }
}

Terms HeldStage::split() const {
  Terms t = forwarded();
  if (first) {  // nothing was done yet
    if (output_stays) t["x"] += 1;
    return t;
  }
  add_gradients(t);
  if (keeps_input_gradient(false)) t["x"] += 1;
  if (policy.release) {
    t["a_n"] -= blocks - again;
    if (transformer) t["x"] += blocks - again;  // attention's output, which a parameter reads
    add_head_norm(t, -1);
  }
  if (last && !keeps_loss_graph()) t["logp"] -= 1;
  return t;
}

Terms HeldStage::done() const {
  Terms t = output_goes() ? Terms{} : returned();
  if (keeps_input_gradient(!splits) && !first) t["x"] += 1;
  if (first || !splits) {
    if (policy.backward_cycle && output_stays) t["x"] += 1;  // the output's gradient
    return t;
  }
  if ((!policy.clean_hooks || root_stays()) && !policy.release) {
    t["a_n"] += blocks - again + again * runs_a_block;
    t["x"] += again_inner;
    add_head_norm(t, 1);
  }
  if (!policy.clean_hooks) {
    add_gradients(t);
    // The copy of a gradient that is in a receive buffer.
    if (policy.habits.captured_gradients_copied && !last && !output_stays) t["x"] += 1;
  }
  if (last && keeps_loss_graph()) t["logp"] += 1;
  return t;
}

Terms HeldStage::without_loss() const {
  HeldStage detached = *this;
  detached.policy.detach_loss = true;
  Terms t = detached.done();
  if (!policy.backward_cycle || (splits && !first)) t["loss"] -= 1;
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
    t["a_n"] = blocks - again + again * runs_a_block;
    // Inputs of checkpointed blocks; the stage's own is held by its node in the graph in any case.
    t["x"] = again_inner + (input_leaks ? 1 : 0);
    add_head_norm(t, 1);
    add_gradients(t);
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

Terms Ledger::in_parts() const {
  Terms all;
  for (const auto& [symbol, count] : now_) {
    if (const auto found = parts_.find(symbol); found != parts_.end()) {
      for (const auto& [part, n] : found->second) all[part] += count * n;
    } else {
      all[symbol] += count;
    }
  }
  std::erase_if(all, [](const auto& one) { return one.second == 0; });
  return all;
}

}  // namespace tidemark::zero_bubble_detach
