#include "cases/zero_bubble_detach/split_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "harness/parallel/run_backward.h"

namespace tidemark::zero_bubble_detach {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::autograd::impl::gradient_edge;

/// `unused`: nodes on the way to the input that the weight pass does not run, in the order of
/// discovery.
ParameterGroups split(Node* root, Node* input, const std::vector<Node*>& parameters,
                      std::vector<Node*>& unused) {
  std::vector<Node*> all{root};
  std::unordered_map<Node*, std::vector<Node*>> above{{root, {}}};  // nodes with an edge to it
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const Edge& edge : all[i]->next_edges()) {
      if (!edge.is_valid()) continue;
      const auto [entry, fresh] = above.try_emplace(edge.function.get());
      entry->second.push_back(all[i]);
      if (fresh) all.push_back(entry->first);
    }
  using Nodes = std::unordered_set<Node*>;
  const auto leading_to = [&above](Node* node, const Nodes& border) {
    Nodes seen{node};
    std::vector<Node*> next{node};
    for (std::size_t i = 0; i < next.size(); ++i)
      if (!border.contains(next[i]))
        for (Node* one : above[next[i]])
          if (seen.insert(one).second) next.push_back(one);
    return seen;
  };
  const Nodes on_the_way = leading_to(input, {});
  std::unordered_map<Node*, std::shared_ptr<ParameterGroup>> joins;
  ParameterGroups groups;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    bool joined = false;
    for (Node* node : leading_to(parameters[p], on_the_way)) {
      if (!on_the_way.contains(node)) continue;
      if (std::exchange(joined, true))
        throw std::logic_error("a parameter joins the way to the input of its stage twice");
      auto& group = joins[node];
      if (!group) {
        group = groups.emplace_back(std::make_shared<ParameterGroup>());
        group->intermediate = node->getptr();
        for (std::size_t i = 0; i < node->num_outputs(); ++i)
          if (on_the_way.contains(node->next_edge(i).function.get()))
            group->on_the_way.push_back(i);
      }
      group->parameters.push_back(p);
    }
  }
  std::ranges::copy_if(all, std::back_inserter(unused), [&](Node* node) {
    return on_the_way.contains(node) && !joins.contains(node);
  });
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

/// Returns the gradients. `copy`: of the run before.
variable_list run_task(const std::vector<at::Tensor>& parameters, const ParameterGroups& groups,
                       const WeightPass& pass, at::Tensor& copy) {
  edge_list starts, ends;
  variable_list gradients, copied;
  for (const auto& group : groups) {
    for (const std::size_t edge : group->on_the_way)
      if (groups.size() > 1) group->intermediate->next_edges()[edge] = Edge();
    for (std::size_t k = 0; k < group->gradients.size(); ++k) {
      const at::Tensor& taken = group->gradients[k];
      if (!taken.defined()) continue;
      starts.emplace_back(group->intermediate, static_cast<std::uint32_t>(k));
      gradients.push_back(taken);
      if (pass.copies) copied.push_back(copy = taken.clone());
    }
    for (const std::size_t p : group->parameters) ends.push_back(gradient_edge(parameters[p]));
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
  auto weight = weights.begin();
  for (const auto& group : groups)
    for (const std::size_t p : group->parameters) {
      at::Tensor& sum = parameters[p].mutable_grad();
      if (sum.defined())
        sum.add_(*weight);
      else
        sum = *weight;
      ++weight;
    }
  return weights;
}

}  // namespace

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

void backward_weight(const std::vector<at::Tensor>& parameters, ParameterGroups groups,
                     WeightPass pass, const std::vector<std::int64_t>& tasks) {
  std::vector<ParameterGroups> runs;
  std::int64_t task = 0;
  for (auto& group : groups) {
    const auto own = tasks.empty() ? 0 : tasks.at(group->parameters.front());
    if (tasks.empty() || runs.empty() || own != task) runs.emplace_back();
    task = own;
    runs.back().push_back(std::move(group));
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
