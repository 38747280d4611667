#include "cases/zero_bubble_detach/split_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "harness/parallel/run_backward.h"

namespace tidemark::zero_bubble_detach {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Every node that `root` leads to, in the order of discovery.
std::vector<Node*> graph_of(Node* root) {
  std::vector<Node*> all{root};
  std::unordered_set<Node*> seen{root};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const Edge& edge : all[i]->next_edges())
      if (Node* next = edge.function.get(); next && seen.insert(next).second) all.push_back(next);
  return all;
}

/// `unused`: nodes on the way to the input that the weight pass does not run, in the order of
/// discovery.
ParameterGroups split(Node* root, Node* input, const std::vector<Node*>& parameters,
                      std::vector<Node*>& unused) {
  std::unordered_set<Node*> on_the_way{input}, idle;
  std::unordered_map<Node*, std::vector<std::size_t>> led_to;  // parameters beside the way
  for (std::size_t i = 0; i < parameters.size(); ++i) led_to[parameters[i]] = {i};
  std::map<std::size_t, std::shared_ptr<ParameterGroup>> joins;
  std::size_t joined = 0;
  const std::vector<Node*> all = graph_of(root);
  std::vector<Node*> inner_first = all;  // each behind all that it leads to
  std::ranges::stable_sort(inner_first, {}, &Node::topological_nr);
  for (Node* node : inner_first) {
    auto group = std::make_shared<ParameterGroup>();
    for (std::size_t i = 0; i < node->next_edges().size(); ++i) {
      Node* next = node->next_edge(i).function.get();
      if (on_the_way.contains(next)) on_the_way.insert(node);
      const auto& own = led_to[next];
      group->parameters.insert(group->parameters.end(), own.begin(), own.end());
      if (own.empty()) group->other_edges.push_back(i);
    }
    if (!on_the_way.contains(node)) {
      if (!group->parameters.empty()) led_to[node] = group->parameters;
    } else if (group->parameters.empty()) {
      idle.insert(node);
    } else {
      group->intermediate = node->getptr();
      std::ranges::sort(group->parameters);
      for (const std::size_t parameter : group->parameters) joins[parameter] = group;
      joined += group->parameters.size();
    }
  }
  std::ranges::copy_if(all, std::back_inserter(unused),
                       [&](Node* node) { return idle.contains(node); });
  if (joins.size() != joined)
    throw std::logic_error("a parameter joins the way to the input of its stage twice");
  ParameterGroups groups;
  for (const auto& [parameter, group] : joins)
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  return groups;
}

/// Takes down what arrives at an intermediate.
struct TakeDown final : torch::autograd::FunctionPreHook {
  explicit TakeDown(std::shared_ptr<ParameterGroup> g) : group(std::move(g)) {}
  variable_list operator()(const variable_list& gradients) override {
    return group->gradients = gradients;
  }
  std::shared_ptr<ParameterGroup> group;
};

void remove_hook(const ParameterGroup& group) {
  if (!group.intermediate) return;
  std::erase_if(group.intermediate->pre_hooks(), [](const auto& hook) {
    return dynamic_cast<const TakeDown*>(hook.get()) != nullptr;
  });
}

}  // namespace

Edge gradient_edge(const at::Tensor& tensor) {
  return torch::autograd::impl::gradient_edge(tensor);
}

InputGradient backward_input(const Edge& root, const at::Tensor& root_gradient,
                             const at::Tensor& input, const std::vector<at::Tensor>& parameters,
                             InputPass pass) {
  const Edge end = gradient_edge(input);
  edge_list accumulators;  // they live as long as these
  std::vector<Node*> nodes, unused;
  for (const auto& parameter : parameters)
    nodes.push_back(accumulators.emplace_back(gradient_edge(parameter)).function.get());
  InputGradient result;
  result.groups = split(root.function.get(), end.function.get(), nodes, unused);
  for (auto& group : result.groups)
    group->intermediate->add_pre_hook(std::make_unique<TakeDown>(group));
  try {
    result.gradient = run_backward({root}, {root_gradient}, {end}, {.keep_graph = true})[0];
  } catch (...) {  // out of memory, say: the cycles would keep the graph for ever
    collect(result.groups);
    throw;
  }
  if (pass.clean_hooks)
    for (const auto& group : result.groups) remove_hook(*group);
  if (pass.release)
    for (Node* node : unused) node->release_variables();
  return result;
}

namespace {

/// Returns the gradients. `copy`: of the run before.
variable_list run_task(const std::vector<at::Tensor>& parameters, const ParameterGroups& groups,
                       const WeightPass& pass, at::Tensor& copy) {
  edge_list starts, ends;
  variable_list gradients, copied;
  std::vector<std::size_t> order;
  for (const auto& group : groups) {
    for (const std::size_t edge : group->other_edges)
      if (groups.size() > 1) group->intermediate->next_edges()[edge] = Edge();
    for (std::size_t k = 0; k < group->gradients.size(); ++k) {
      const at::Tensor& taken = group->gradients[k];
      if (!taken.defined()) continue;
      starts.emplace_back(group->intermediate, static_cast<std::uint32_t>(k));
      gradients.push_back(taken);
      if (pass.copies) copied.push_back(copy = taken.clone());
    }
    for (const std::size_t p : group->parameters) {
      order.push_back(p);
      ends.push_back(gradient_edge(parameters[p]));
    }
    if (pass.clean_hooks) {
      group->intermediate.reset();
      group->gradients.clear();
    }
  }
  if (starts.empty()) return {};
  auto weights = run_backward(starts, pass.copies ? copied : gradients, ends, {});
  starts.clear();
  gradients.clear();
  copied.clear();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const at::Tensor& parameter = parameters[order[i]];
    if (!weights[i].defined()) continue;
    if (parameter.grad().defined())
      parameter.mutable_grad().add_(weights[i]);
    else
      parameter.mutable_grad() = weights[i];
  }
  return weights;
}

}  // namespace

void backward_weight(const std::vector<at::Tensor>& parameters, ParameterGroups groups,
                     WeightPass pass, const std::vector<int>& tasks) {
  std::vector<ParameterGroups> runs;
  std::map<int, std::size_t> of_task;
  for (auto& group : groups) {
    if (tasks.empty()) {
      runs.push_back({std::move(group)});
    } else {
      const auto [found, fresh] = of_task.emplace(tasks.at(group->parameters.front()), runs.size());
      if (fresh) runs.emplace_back();
      runs[found->second].push_back(std::move(group));
    }
  }
  groups.clear();
  variable_list last;
  at::Tensor copy;
  for (auto& run : runs) {
    last = run_task(parameters, run, pass, copy);
    if (!pass.linger) last.clear();
    run.clear();
  }
}

void collect(ParameterGroups& groups) {
  for (auto& group : groups) {
    remove_hook(*group);
    group->intermediate.reset();
    group->gradients.clear();
  }
  groups.clear();
}

}  // namespace tidemark::zero_bubble_detach
