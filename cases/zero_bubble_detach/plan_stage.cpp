#include <set>
#include <utility>

#include "cases/zero_bubble_detach/plan.h"

namespace tidemark::zero_bubble_detach {

StagePlan::StagePlan(Autograd& autograd, LanguageModel& model, const Sizes& sizes,
                     const StagePlace& stage, const StagePolicy& policy)
    : autograd_(autograd), model_(model), sizes_(sizes), stage_(stage), policy_(policy) {
  const auto add = [&](const Amount& bytes, std::int64_t task) {
    parameters_.push_back(autograd_.make(bytes, "rest"));
    tasks_.push_back(task);
  };
  const auto row = sizes.hidden * sizes.element();
  const Amount table(sizes.vocabulary * row, "w_v");
  if (stage.first) add(table, -1);
  for (auto layer = stage.first_layer; layer < stage.end_layer; ++layer)
    for (const auto& bytes : model.block_parameters()) add(bytes, layer);
  if (stage.last) {
    add({row, "w_n"}, stage.end_layer);
    add(table, stage.end_layer);
  }
}

Tensor StagePlan::forward(int microbatch, const Tensor& input) {
  auto next = parameters_.begin();
  Tensor x = stage_.first ? model_.embedding(*next++) : input;
  const auto count = std::ssize(model_.block_parameters());
  for (auto layer = stage_.first_layer; layer < stage_.end_layer; ++layer, next += count) {
    const auto run = [this, weights = Tensors(next, next + count)](const Tensor& t) {
      return model_.block(t, weights);
    };
    x = sizes_.checkpointed(layer) ? checkpoint(autograd_, run, x) : run(x);
  }
  UnderWay& one = under_way_[microbatch];
  one.input = input;
  if (stage_.last) {
    const auto logits = model_.tokens_by(sizes_.vocabulary, "logits");
    x = model_.linear(model_.norm(x, next[0]), next[1], logits);
  }
  const Tensor output = std::move(x), root = stage_.last ? model_.cross_entropy(output) : output;
  if (policy_.roots_as_edges) {
    one.edge = gradient_node(root);
    if (stage_.last) {
      losses_[microbatch] = alias(root);
      outputs_[microbatch] = alias(output);
    }
  } else {
    one.root = root;
    if (stage_.last) losses_[microbatch] = root;
    outputs_[microbatch] = output;
  }
  return alias(output);
}

Tensor StagePlan::root_gradient(const Tensor& gradient) {
  return gradient ? gradient : autograd_.make({4, "loss"});
}

Tensor StagePlan::backward(int microbatch, const Tensor& gradient) {
  const UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  autograd_.run({one.start()}, {root_gradient(gradient)}, {}, false);
  if (policy_.backward_cycle) in_cycles_.insert(in_cycles_.end(), {one.root, gradient});
  passed(microbatch);
  if (stage_.first) return nullptr;
  return kept(microbatch, std::exchange(one.input->gradient, nullptr), /*whole=*/true);
}

Tensor StagePlan::kept(int microbatch, const Tensor& gradient, bool whole) {
  const auto& habits = policy_.habits;
  if (whole ? habits.whole_input_gradients_stay : habits.input_gradients_stay)
    input_gradients_[microbatch] = gradient;
  if (habits.last_input_gradient_stays) last_input_gradient_ = gradient;
  return gradient;
}

void StagePlan::passed(int microbatch) {
  if (policy_.habits.outputs_go && !stage_.last) outputs_.erase(microbatch);
}

StagePlan::Groups StagePlan::groups(const NodePointer& start,
                                    std::vector<NodePointer>& unused) const {
  std::map<Node*, std::size_t> owners;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (const auto node = parameters_[i]->accumulator.lock()) owners[node.get()] = i;
  std::map<std::size_t, NodePointer> joins;
  std::set<Node*> seen{start.get()};
  std::vector<NodePointer> all{start};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const NodePointer node = all[i];
    bool joined = false;
    for (const auto& next : node->next) {
      if (const auto found = owners.find(next.get()); found != owners.end()) {
        joins[found->second] = node;
        joined = true;
      } else if (next && seen.insert(next.get()).second) {
        all.push_back(next);
      }
    }
    if (!joined) unused.push_back(node);
  }
  Groups result;
  for (const auto& [parameter, node] : joins)
    result.push_back(std::make_shared<Group>(parameter, node, nullptr));
  return result;
}

Tensor StagePlan::input(int microbatch, const Tensor& gradient) {
  UnderWay& one = under_way_.at(microbatch);
  if (stage_.first) {  // everything is left to the weight pass
    one.gradient = gradient;
    return nullptr;
  }
  std::vector<NodePointer> unused;
  one.groups = groups(one.start(), unused);
  for (const auto& group : one.groups)
    group->node->hooks.push_back([group](const Tensor& arrived) { group->gradient = arrived; });
  const Tensors result = autograd_.run({one.start()}, {root_gradient(gradient)},
                                       {gradient_node(one.input)}, /*keep_graph=*/true);
  for (const auto& group : one.groups) {
    if (policy_.clean_hooks)
      group->node->hooks.clear();
    else
      uncollected_.push_back(group);
  }
  if (policy_.release)
    for (const auto& node : unused) node->saved.clear();
  one.edge.reset();
  detach(microbatch);
  return kept(microbatch, result[0], /*whole=*/false);
}

void StagePlan::detach(int microbatch) {
  if (policy_.roots_as_edges) return;
  if (stage_.last && policy_.detach_loss) losses_[microbatch]->made_by.reset();
  if (stage_.last ? policy_.detach_last : policy_.detach_outputs)
    outputs_[microbatch]->made_by.reset();
}

Tensors StagePlan::weight_run(const Groups& groups, Tensor& copy) {
  std::vector<NodePointer> starts, ends;
  Tensors gradients, copied;
  for (const auto& group : groups) {
    if (groups.size() > 1) group->node->next[0].reset();  // the way to the other groups
    starts.push_back(group->node);
    gradients.push_back(group->gradient);
    if (policy_.habits.captured_gradients_copied)
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
    TensorModel& parameter = *parameters_[groups[i]->parameter];
    if (!parameter.gradient) parameter.gradient = std::exchange(weights[i], nullptr);
  }
  return weights;
}

void StagePlan::weight(int microbatch) {
  if (stage_.first) {
    const Tensor gradient = under_way_.at(microbatch).gradient;
    backward(microbatch, gradient);
    return;
  }
  UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  std::vector<Groups> runs;
  for (auto& group : one.groups) {
    const bool shared = policy_.one_weight_task && !runs.empty() &&
                        tasks_[runs.back().front()->parameter] == tasks_[group->parameter];
    if (!shared) runs.emplace_back();
    runs.back().push_back(std::move(group));
  }
  one.groups.clear();
  Tensors last;
  Tensor copy;
  for (auto& run : runs) {
    last = weight_run(run, copy);
    if (!policy_.habits.weight_gradients_linger) last.clear();
    run.clear();
  }
  passed(microbatch);
}

void StagePlan::end_step() {
  input_gradients_.clear();
  if (!policy_.outputs_stay) outputs_.clear();
  losses_.clear();
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

void StagePlan::zero_gradients() {
  for (auto& parameter : parameters_) parameter->gradient.reset();
}

}  // namespace tidemark::zero_bubble_detach
