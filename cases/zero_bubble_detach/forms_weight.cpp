#include <ranges>
#include <span>
#include <utility>

#include "cases/zero_bubble_detach/forms.h"

namespace tidemark::zero_bubble_detach {

struct Passes::Group {
  std::string name, gradient;
  /// What its node has saved and frees, where the groups run in order, and in reverse (a tensor
  /// that several nodes saved goes with the last of them).
  Terms saved, saved_reversed;
  Terms taken;             // the gradient that waits for it, unless that is in a receive buffer
  bool by_tokens = false;  // the weight's gradient, before it is summed
  Terms arrived = taken;   // that gradient, wherever it is
};

// In floats the weight's node has saved what it multiplies, and makes the weight's gradient by
// tokens. The nodes below it go with it where nothing else leads there.
Passes::Group Passes::norm_group(const std::string& name, double inputs) const {
  Group one{name, "w_n", {{"x", inputs}, {"s", 1}}, {{"x", inputs}, {"s", 1}}, {{"x", 1}}};
  if (!floats_) return one;
  one.by_tokens = true;
  one.saved = {{"x", 1}};
  one.saved_reversed = {{"x", 1 + inputs}, {"y", 1}, {"s", 1}};
  return one;
}

std::vector<Passes::Group> Passes::block_groups(const Stage& stage, int block) const {
  const auto& held = stage.held;
  const Terms none, x{{"x", 1}}, f{{"f", 1}}, k{{"k", 1}};
  // The first one's is not the stage's own; a checkpointed one's stays as long as any of its nodes.
  const bool frees = block > 0 && (!checkpointed(stage, block) || held.policy.one_weight_task);
  const Terms input = frees ? x : none;
  const bool top = block + 1 == static_cast<int>(held.blocks);
  const Terms output = !top || held.last || held.output_stays ? x : none;
  if (!z_.transformer)
    return {{"fc1", "w_f", input, input, f}, {"fc2", "w_f", f, f, output, false, x}};
  const Terms attended = held.policy.release ? x : none;  // else attention has saved it too
  const bool read =
      frees && (!floats_ || checkpointed(stage, block));  // the input, by the first norm
  return {norm_group("attention_norm", read ? 1 : 0),
          {"wq", "w_q", none, x, x},
          {"wk", "w_k", none, none, k},
          {"wv", "w_k", x, none, k},
          {"wo", "w_q", attended, attended, x},
          norm_group("ffn_norm", floats_ ? 0 : 1),
          {"w1", "w_f", none, x, f},
          {"w3", "w_f", x, none, f},
          {"w2", "w_f", f, f, output, false, x}};
}

std::vector<Passes::Group> Passes::head_groups() const {
  const Terms x{{"x", 1}};
  return {norm_group("norm", floats_ ? 0 : 1), {"head", "w_v", x, x, {{"logits", 1}}}};
}

// A norm in floats makes its weight's gradient by tokens, and then frees what it has unpacked,
// which is of the same size, before it sums.
void Passes::gradient(bool by_tokens, bool again, const std::string& where,
                      const std::function<void()>& computed) {
  if (!by_tokens) return computed();
  l_.take("x");
  l_.moment(where);
  if (again) l_.drop("x");
  if (sums_) l_.take("sum");
  computed();
  if (sums_) l_.drop("sum");
  if (!again) l_.drop("x");
}

void Passes::gradient(const Stage& stage, const std::string& symbol, const std::string& where) {
  l_.take(symbol);
  l_.moment(where);
  if (stage.fresh)
    gradients_[symbol] += 1;
  else
    l_.drop(symbol);
}

void Passes::gradients_done(const Stage& stage) {
  if (!stage.fresh) return;
  l_.add(std::exchange(gradients_, {}), -1);
  l_.add(gradients_of(stage.held));
}

void Passes::computed(const Stage& stage, const Terms& gradients) {
  l_.add(std::exchange(lingering_, {}), -1);
  if (stage.fresh)
    for (const auto& [symbol, count] : gradients) gradients_[symbol] += count;
  else if (stage.held.policy.habits.weight_gradients_linger)
    lingering_ = gradients;
  else
    l_.add(gradients, -1);
}

// The copy of the run before goes when this one is there, unless a hook has taken it down.
void Passes::copied(const Stage& stage, const Group& group, bool first, const std::string& where) {
  if (!stage.held.policy.habits.captured_gradients_copied) return;
  l_.add(group.arrived);
  l_.moment(where + group.name + ", its gradient copied");
  if (first) l_.add(std::exchange(copied_, {}), -1);
  if (stage.held.policy.clean_hooks) copied_ = group.arrived;
}

// A run of the engine for each group, or one for all of them: then the gradients that start it, and
// those it computes, stay until its end. A checkpointed block is run again by each run, and of
// every run so far there is what nodes have saved that no run has reached yet.
void Passes::run_groups(const Stage& stage, const std::vector<Group>& groups, int block,
                        const std::string& where) {
  const auto& policy = stage.held.policy;
  const bool again = block >= 0 && checkpointed(stage, block), together = policy.one_weight_task;
  const bool copies = policy.habits.captured_gradients_copied;
  Terms unread = saved_by_block(policy.release);
  double runs = again ? 0 : 1;
  const std::size_t size = together ? groups.size() : 1;
  for (auto rest = std::span(groups); !rest.empty(); rest = rest.subspan(size)) {
    const auto run = rest.first(size);
    for (const auto& group : run) copied(stage, group, &group == &run.front(), where);
    if (again) {
      ++runs;
      run_again(together ? where : where + run.front().name + ", ");
      l_.add(saved_by_block(), -1);
      l_.add(unread);
    }
    Terms found;
    for (const auto& group : std::views::reverse(run)) {
      gradient(group.by_tokens, again, where + group.name, [&] {
        l_.take(group.gradient);
        l_.moment(where + group.name);
      });
      found[group.gradient] += 1;
      const auto& saved = together ? group.saved_reversed : group.saved;
      l_.add(saved, -runs);
      for (const auto& [symbol, count] : saved) unread[symbol] -= count;
      // The cut between the groups leaves these to the one tensor that still refers to their nodes.
      if (!together) continue;
      if (group.name == "fc2") l_.drop("f");
      if (group.name == "w2") l_.drop("f", 3);
      if (group.name == "wo") l_.add(attention_saved(), -1);
    }
    for (const auto& group : run) {
      // A hook that is still there takes down the copy instead.
      if (policy.clean_hooks || copies) l_.add(group.taken, -1);
      if (copies && &group != &run.back()) l_.add(group.arrived, -1);
    }
    computed(stage, found);
  }
  for (; again && !policy.release && !together && runs > 0; --runs) l_.close("a_n");
}

void Passes::weight(const Stage& stage, const std::string& where) {
  const auto& held = stage.held;
  if (held.first) return backward(stage, where);
  for (int block = 0; block < static_cast<int>(held.blocks); ++block) {
    const bool again = checkpointed(stage, block);
    if (!again) l_.open("a_w");
    if (!again && held.policy.one_weight_task) l_.open("a_n");
    if (held.policy.clean_hooks) l_.open("g");
    run_groups(stage, block_groups(stage, block), block, where + in_block(block));
    if (again && held.policy.release && block > 0) l_.drop("x");  // its input
  }
  if (held.last) run_groups(stage, head_groups(), -1, where + ", ");
  // With the last node goes what the nodes between have saved, unless a root still leads there.
  const bool stays = !held.policy.clean_hooks || held.root_stays();
  if (!stays && !held.policy.release && !held.policy.one_weight_task) l_.add(held.graph(), -1);
  if (held.policy.roots_as_edges && held.input_stays) l_.drop("x");
  if (held.output_goes() && held.keeps_output()) l_.drop("x");
  l_.add(std::exchange(lingering_, {}), -1);
  l_.add(std::exchange(copied_, {}), -1);
  gradients_done(stage);
}

}  // namespace tidemark::zero_bubble_detach
