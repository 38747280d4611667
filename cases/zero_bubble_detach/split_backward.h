// A backward in two passes: the gradients of a stage's inputs first, those of its weights later
// (zero bubble schedules). After torch/distributed/pipelining/_backward.py.
//
// The input pass keeps the graph and takes down the gradients that arrive at the intermediates: the
// nodes on the way from inputs to outputs where a parameter joins. The weight pass starts there.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

namespace tidemark::zero_bubble_detach {

/// Parameters that share an intermediate, hence a run of the engine.
struct ParameterGroup {
  std::vector<std::size_t> parameters;  // indices into the stage's list
  std::shared_ptr<torch::autograd::Node> intermediate;
  std::vector<std::size_t> on_the_way;       // its edges to other nodes on the way
  torch::autograd::variable_list gradients;  // taken down there
};
using ParameterGroups = std::vector<std::shared_ptr<ParameterGroup>>;

struct InputPass {
  /// Hooks go once they have taken down their gradients, and the weight pass drops the gradients
  /// and the intermediate of a group when it has used them. Without that, intermediate -> hook ->
  /// group -> intermediate is a cycle: it keeps the graph until the groups are collected.
  bool clean_hooks = true;
  /// Everything saved by nodes that the weight pass will not run is let go at the end of the pass.
  bool release = false;
};

struct InputGradient {
  at::Tensor gradient;
  ParameterGroups groups;  // in the order of the parameters
};

/// The gradient of `input` (a leaf that requires it) from that of the root; no parameter's gradient
/// is touched, and the graph stays. Throws c10::Error where the input is not reached, and
/// std::logic_error where a parameter joins the way to it twice.
InputGradient backward_input(const torch::autograd::Edge& root, const at::Tensor& root_gradient,
                             const at::Tensor& input, const std::vector<at::Tensor>& parameters,
                             InputPass pass = {});

struct WeightPass {
  bool clean_hooks = true;  // InputPass::clean_hooks
  bool linger = false;      // a run's gradients are dropped when the next one is through
  /// A run begins with copies of the gradients taken down, and the last of these is dropped when
  /// the next one is made.
  bool copies = false;
};

/// Adds the weight gradients of all groups to their parameters' grad(). `tasks[i]` of parameter i:
/// successive groups of equal task share one run of the engine; empty: one run a group. A run that
/// starts at several intermediates cuts the edges between them, or what arrives at the lower one
/// would count twice.
void backward_weight(const std::vector<at::Tensor>& parameters, ParameterGroups groups,
                     WeightPass pass = {}, const std::vector<std::int64_t>& tasks = {});

/// Breaks the cycles of these groups.
void collect(ParameterGroups& groups);

}  // namespace tidemark::zero_bubble_detach
