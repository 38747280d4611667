#include "cases/zero_bubble_detach/split_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "harness/parallel/run_backward.h"

namespace tidemark::zero_bubble_detach {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

using Nodes = std::vector<Node*>;
using Reverse = std::unordered_map<Node*, Nodes>;  // who leads to a node; looked up, never walked
using NodeSet = std::unordered_set<Node*>;

/// `all`: every node, in the order of discovery.
Reverse reverse_graph(const Nodes& roots, Nodes& all) {
  Reverse reverse;
  NodeSet seen;
  for (Node* root : roots)
    if (seen.insert(root).second) all.push_back(root);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& edge : all[i]->next_edges()) {
      Node* next = edge.function.get();
      if (!next) continue;
      reverse[next].push_back(all[i]);
      if (seen.insert(next).second) all.push_back(next);
    }
  }
  return reverse;
}

struct Closure {
  NodeSet nodes;
  Nodes stopped_at;  // in the order of discovery
};

/// The nodes that lead to `start`, up to `targets`, which are not part of the result.
Closure closure(const Nodes& start, const NodeSet& targets, const Reverse& reverse) {
  Closure result;
  NodeSet stopped;
  std::deque<Node*> queue;
  for (Node* node : start)
    if (result.nodes.insert(node).second) queue.push_back(node);
  while (!queue.empty()) {
    const auto found = reverse.find(queue.front());
    queue.pop_front();
    if (found == reverse.end()) continue;
    for (Node* before : found->second) {
      if (result.nodes.contains(before)) continue;
      if (targets.contains(before)) {
        if (stopped.insert(before).second) result.stopped_at.push_back(before);
      } else {
        result.nodes.insert(before);
        queue.push_back(before);
      }
    }
  }
  return result;
}

struct Split {
  ParameterGroups groups;
  Nodes unused;  // by the weight pass
};

Split split(const Nodes& roots, const Nodes& inputs, const Nodes& parameters) {
  Nodes all;
  const Reverse reverse = reverse_graph(roots, all);
  const NodeSet through = closure(inputs, {}, reverse).nodes;
  Split result;
  std::unordered_map<Node*, std::shared_ptr<ParameterGroup>> of;
  NodeSet ways, starts;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Closure way = closure({parameters[i]}, through, reverse);
    if (way.stopped_at.empty()) continue;
    std::shared_ptr<ParameterGroup> group;
    for (Node* node : way.stopped_at) {
      if (!of.contains(node) || of.at(node) == group) continue;
      auto other = of.at(node);
      if (!group) {
        group = other;
        continue;
      }
      // This parameter joins two groups.
      for (const auto& moved : other->intermediates) of[moved.get()] = group;
      std::ranges::move(other->intermediates, std::back_inserter(group->intermediates));
      std::ranges::move(other->parameters, std::back_inserter(group->parameters));
      std::erase(result.groups, other);
    }
    if (!group) group = result.groups.emplace_back(std::make_shared<ParameterGroup>());
    group->parameters.push_back(i);
    for (Node* node : way.stopped_at) {
      starts.insert(node);
      if (of.emplace(node, group).second) group->intermediates.push_back(node->getptr());
    }
    ways.insert(way.nodes.begin(), way.nodes.end());
  }
  for (auto& group : result.groups) {
    for (const auto& node : group->intermediates) {
      auto& others = group->other_edges.emplace_back();
      for (std::size_t i = 0; i < node->next_edges().size(); ++i)
        if (!ways.contains(node->next_edges()[i].function.get())) others.push_back(i);
    }
  }
  for (Node* node : all)
    if (!ways.contains(node) && !starts.contains(node)) result.unused.push_back(node);
  return result;
}

/// Takes down what arrives at an intermediate.
struct TakeDown final : torch::autograd::FunctionPreHook {
  TakeDown(std::shared_ptr<ParameterGroup> g, std::size_t i) : group(std::move(g)), index(i) {}
  variable_list operator()(const variable_list& gradients) override {
    group->gradients[index] = gradients;
    return gradients;
  }
  std::shared_ptr<ParameterGroup> group;
  std::size_t index;
};

void remove_hooks(ParameterGroup& group) {
  for (auto& node : group.intermediates)
    std::erase_if(node->pre_hooks(), [](const auto& hook) {
      return dynamic_cast<const TakeDown*>(hook.get()) != nullptr;
    });
}

}  // namespace

Edge gradient_edge(const at::Tensor& tensor) {
  return torch::autograd::impl::gradient_edge(tensor);
}

InputGradients backward_input(const edge_list& roots, const variable_list& root_gradients,
                              const std::vector<at::Tensor>& inputs,
                              const std::vector<at::Tensor>& parameters, InputPass pass) {
  Nodes root_nodes, input_nodes, parameter_nodes;
  edge_list input_edges, parameter_edges;  // the accumulators live as long as these
  for (const auto& root : roots) root_nodes.push_back(root.function.get());
  for (const auto& input : inputs) {
    input_edges.push_back(gradient_edge(input));
    input_nodes.push_back(input_edges.back().function.get());
  }
  for (const auto& parameter : parameters) {
    parameter_edges.push_back(gradient_edge(parameter));
    parameter_nodes.push_back(parameter_edges.back().function.get());
  }
  Split parts = split(root_nodes, input_nodes, parameter_nodes);
  for (auto& group : parts.groups) {
    group->gradients.resize(group->intermediates.size());
    for (std::size_t i = 0; i < group->intermediates.size(); ++i)
      group->intermediates[i]->add_pre_hook(std::make_unique<TakeDown>(group, i));
  }
  InputGradients result;
  try {
    result.gradients = run_backward(roots, root_gradients, input_edges, {.keep_graph = true});
  } catch (...) {  // out of memory, say: the cycles would keep the graph for ever
    collect(parts.groups);
    throw;
  }
  if (pass.clean_hooks)
    for (auto& group : parts.groups) remove_hooks(*group);
  if (pass.release)
    for (Node* node : parts.unused) node->release_variables();
  result.groups = std::move(parts.groups);
  return result;
}

namespace {

/// Returns the gradients. `copy`: of the run before.
variable_list run_task(const std::vector<at::Tensor>& parameters, const ParameterGroups& groups,
                       const WeightPass& pass, at::Tensor& copy) {
  edge_list starts, ends;
  variable_list gradients, copied;
  std::vector<std::size_t> order;
  std::size_t intermediates = 0;
  for (const auto& group : groups) intermediates += group->intermediates.size();
  for (const auto& group : groups) {
    for (std::size_t i = 0; intermediates > 1 && i < group->intermediates.size(); ++i)
      for (const std::size_t edge : group->other_edges[i])
        group->intermediates[i]->next_edges()[edge] = Edge();
    for (std::size_t i = 0; i < group->intermediates.size(); ++i) {
      const auto& taken = group->gradients[i];
      for (std::size_t k = 0; k < taken.size(); ++k) {
        if (!taken[k].defined()) continue;
        starts.emplace_back(group->intermediates[i], static_cast<std::uint32_t>(k));
        gradients.push_back(taken[k]);
        if (pass.copies) copied.push_back(copy = taken[k].clone());
      }
    }
    for (const std::size_t p : group->parameters) {
      order.push_back(p);
      ends.push_back(gradient_edge(parameters[p]));
    }
    if (pass.clean_hooks) {
      group->intermediates.clear();
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
    remove_hooks(*group);
    group->intermediates.clear();
    group->gradients.clear();
  }
  groups.clear();
}

}  // namespace tidemark::zero_bubble_detach
