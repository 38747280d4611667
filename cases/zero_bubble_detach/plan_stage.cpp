#include <set>
#include <utility>

#include "cases/zero_bubble_detach/plan.h"

namespace tidemark::zero_bubble_detach {

StagePlan::StagePlan(Autograd& autograd, LanguageModel& model, const Sizes& sizes,
                     const StagePlace& place, const StagePolicy& policy)
    : autograd_(autograd), model_(model), sizes_(sizes), place_(place), policy_(policy) {
  const auto row = sizes.hidden * sizes.element();
  const Amount table(sizes.vocabulary * row, "w_v");
  std::vector<Amount> all;
  if (place.first) all.push_back(table);
  for (auto layer = place.first_layer; layer < place.end_layer; ++layer)
    for (const auto& bytes : model.block_parameters()) all.push_back(bytes);
  if (place.last) all.insert(all.end(), {{row, "w_n"}, table});
  for (const auto& bytes : all) parameters_.push_back(autograd_.make(bytes, "rest"));
}

Tensor StagePlan::forward(int microbatch, const Tensor& input) {
  auto next = parameters_.begin();
  Tensor x = place_.first ? model_.embedding(*next++) : input;
  const auto count = sizes_.parameters_a_block();
  for (auto layer = place_.first_layer; layer < place_.end_layer; ++layer, next += count) {
    const auto run = [this, weights = Tensors(next, next + count)](const Tensor& t) {
      return model_.block(t, weights);
    };
    x = sizes_.checkpointed(layer) ? checkpoint(autograd_, run, x) : run(x);
  }
  if (place_.last) {
    const auto logits = model_.tokens_by(sizes_.vocabulary, "logits");
    x = model_.linear(model_.norm(x, next[0]), next[1], logits);
  }
  const Tensor output = std::move(x), root = place_.last ? model_.cross_entropy(output) : output;
  const bool edges = policy_.roots_as_edges;
  if (place_.last) losses_[microbatch] = edges ? alias(root) : root;
  if (place_.last || !edges) outputs_[microbatch] = edges ? alias(output) : output;
  under_way_[microbatch] = {input, edges ? nullptr : root, nullptr, gradient_node(root), {}};
  return alias(output);
}

Tensor StagePlan::backward(int microbatch, const Tensor& gradient) {
  const UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  autograd_.run({one.start}, {root_gradient(gradient)}, {}, false);
  if (policy_.backward_cycle) in_cycles_.insert(in_cycles_.end(), {one.root, gradient});
  passed(microbatch);
  if (place_.first) return nullptr;
  return kept(microbatch, std::exchange(one.input->gradient, nullptr), /*whole=*/true);
}

Tensor StagePlan::kept(int microbatch, const Tensor& gradient, bool whole) {
  const auto& habits = sizes_.habits;
  if (whole ? habits.whole_input_gradients_stay : habits.input_gradients_stay)
    input_gradients_[microbatch] = gradient;
  if (habits.last_input_gradient_stays) last_input_gradient_ = gradient;
  return gradient;
}

void StagePlan::passed(int microbatch) {
  if (sizes_.habits.outputs_go && !place_.last) outputs_.erase(microbatch);
}

StagePlan::Groups StagePlan::groups(const UnderWay& one, std::vector<NodePointer>& unused) const {
  std::map<Node*, NodePointer> joins;  // by accumulator
  std::set<Node*> seen{one.start.get()};
  std::vector<NodePointer> all{one.start};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const NodePointer node = all[i];
    bool joined = false;
    for (const auto& next : node->next) {
      if (!next || next->variable == one.input) continue;
      if (next->variable)
        joined = true, joins[next.get()] = node;
      else if (seen.insert(next.get()).second)
        all.push_back(next);
    }
    if (!joined) unused.push_back(node);
  }
  Groups result;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (const auto join = joins.find(parameters_[i]->accumulator.lock().get()); join != joins.end())
      result.push_back(std::make_shared<Group>(i, join->second, nullptr));
  return result;
}

Tensor StagePlan::input(int microbatch, const Tensor& gradient) {
  UnderWay& one = under_way_.at(microbatch);
  if (place_.first) {  // everything is left to the weight pass
    one.gradient = gradient;
    return nullptr;
  }
  std::vector<NodePointer> unused;
  one.groups = groups(one, unused);
  for (const auto& group : one.groups)
    group->node->hooks.push_back([group](const Tensor& arrived) { group->gradient = arrived; });
  const Tensors result = autograd_.run({one.start}, {root_gradient(gradient)},
                                       {gradient_node(one.input)}, /*keep_graph=*/true);
  for (const auto& group : one.groups) {
    if (policy_.clean_hooks)
      group->node->hooks.clear();
    else
      uncollected_.push_back(group);
  }
  if (policy_.release)
    for (const auto& node : unused) node->saved.clear();
  one.start.reset();
  if (!policy_.roots_as_edges) {
    if (place_.last && policy_.detach_loss) losses_[microbatch]->made_by.reset();
    if (place_.last ? policy_.detach_last : policy_.detach_outputs)
      outputs_[microbatch]->made_by.reset();
  }
  return kept(microbatch, result[0], /*whole=*/false);
}

void StagePlan::weight(int microbatch) {
  if (place_.first) {
    backward(microbatch, Tensor(under_way_.at(microbatch).gradient));
    return;
  }
  UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  const auto block = [&](const auto& group) {
    return group->parameter / static_cast<std::size_t>(sizes_.parameters_a_block());
  };
  std::vector<Groups> runs;
  for (auto& group : one.groups) {
    if (!policy_.one_weight_task || runs.empty() || block(runs.back().front()) != block(group))
      runs.emplace_back();
    runs.back().push_back(std::move(group));
  }
  one.groups.clear();
  Tensors last;
  Tensor copy;
  for (auto& run : runs) {
    last = weight_run(run, copy);
    if (!sizes_.habits.weight_gradients_linger) last.clear();
    run.clear();
  }
  passed(microbatch);
}

Tensors StagePlan::weight_run(const Groups& groups, Tensor& copy) {
  std::vector<NodePointer> starts, ends;
  Tensors gradients, copied;
  for (const auto& group : groups) {
    if (groups.size() > 1) group->node->next[0].reset();  // the way to the other groups
    starts.push_back(group->node);
    gradients.push_back(group->gradient);
    if (sizes_.habits.captured_gradients_copied)
      copied.push_back(copy = autograd_.make(group->gradient->bytes));
    ends.push_back(gradient_node(parameters_[group->parameter]));
    if (policy_.clean_hooks) {
      group->node.reset();
      group->gradient.reset();
    }
  }
  Tensors weights = autograd_.run(starts, copied.empty() ? gradients : copied, ends,
                                  /*keep_graph=*/false);
  starts.clear();
  gradients.clear();
  copied.clear();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& sum = parameters_[groups[i]->parameter]->gradient;
    if (!sum) sum = std::exchange(weights[i], nullptr);
  }
  return weights;
}

void StagePlan::return_losses() {
  if (losses_.empty()) return;
  losses_of_user_ = std::exchange(losses_, {});
  if (!sizes_.losses_kept || policy_.clears_losses) losses_of_user_.clear();
}

void StagePlan::end_step() {
  input_gradients_.clear();
  if (!policy_.outputs_stay) outputs_.clear();
  return_losses();
  if (!policy_.never_collects) collect();
}

void StagePlan::collect() {
  for (const auto& weak : std::exchange(uncollected_, {})) {
    const auto group = weak.lock();
    if (!group) continue;
    group->node->hooks.clear();
    group->node.reset();
    group->gradient.reset();
  }
}

}  // namespace tidemark::zero_bubble_detach
