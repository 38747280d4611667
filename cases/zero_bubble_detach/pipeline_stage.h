// One stage of a pipeline: forward, and a backward in one or in two passes, for many microbatches
// under way. What it keeps, and for how long, is its policy.
//
// As in torch/distributed/pipelining/stage.py: every microbatch's output is kept until the step
// ends, to be merged and returned; the roots of the backward until its last pass. Each of them
// holds its graph, and with it what the passes have not released. The losses are returned too: a
// user who keeps them holds them across the next step, which returns the next ones when it ends.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <vector>

#include "cases/zero_bubble_detach/policy.h"
#include "cases/zero_bubble_detach/split_backward.h"

namespace tidemark::zero_bubble_detach {

class PipelineStage {
 public:
  PipelineStage(const Sizes& sizes, const StagePlace& place, std::vector<at::Tensor> parameters,
                const StagePolicy& policy);
  /// Breaks the cycles that are left.
  ~PipelineStage() { collect_groups(); }
  PipelineStage(const PipelineStage&) = delete;
  PipelineStage& operator=(const PipelineStage&) = delete;

  /// `input` is a leaf, and requires a gradient except on the first stage. `targets`: the tokens to
  /// predict, on the last stage. Returns the output without its graph.
  at::Tensor forward(int microbatch, const at::Tensor& input, const at::Tensor& targets);
  /// Each takes the gradient of the output (the last stage: none) and returns that of the input
  /// (the first stage: none). `backward` adds to the parameters' gradients, as weight() does later.
  at::Tensor backward(int microbatch, const at::Tensor& gradient);
  at::Tensor input(int microbatch, const at::Tensor& gradient);
  void weight(int microbatch);

  /// Drops the outputs that the step before left.
  void begin_step() { outputs_.clear(), returned_.clear(); }
  /// Mean over the microbatches; the last stage only, before the step ends.
  at::Tensor mean_loss() const { return at::stack(without_graph(losses_)).mean(); }
  /// Makes one tensor of all outputs, when it has returned the losses; the last stage only.
  void merge_outputs() {
    return_losses();
    at::cat(without_graph(outputs_));
  }
  /// Outputs and gradients of inputs go, and losses to the user; where hooks were not cleaned their
  /// cycles are collected, as a garbage collector would sooner or later.
  void end_step();
  const StagePlace& place() const { return place_; }

 private:
  struct UnderWay {
    at::Tensor input, root, gradient;
    torch::autograd::Edge start;  // of the backward; the input pass drops it
    ParameterGroups groups;
  };
  static std::vector<at::Tensor> without_graph(const std::map<int, at::Tensor>& kept);
  at::Tensor root_gradient(const at::Tensor& gradient) const;
  /// After the last pass.
  void passed(int microbatch);
  /// The gradient of a microbatch's input, which may stay; `whole`: of a whole backward.
  at::Tensor kept(int microbatch, at::Tensor gradient, bool whole);
  void detach(int microbatch);
  /// Puts the losses of this step into the user's list, in place of the losses of the step before.
  /// The user keeps or clears the list.
  void return_losses();
  void collect_groups();

  const Sizes sizes_;
  const StagePlace place_;
  const std::vector<at::Tensor> parameters_;
  const StagePolicy policy_;
  std::vector<std::int64_t> tasks_;  // by parameter: its block, where its groups share a run
  std::map<int, UnderWay> under_way_;
  std::map<int, at::Tensor> outputs_, returned_, losses_, input_gradients_;
  std::map<int, at::Tensor> losses_of_user_;
  at::Tensor last_input_gradient_;
  std::vector<std::weak_ptr<ParameterGroup>> uncollected_;
  std::vector<at::Tensor> in_cycles_;  // roots and gradients of whole backwards
};

}  // namespace tidemark::zero_bubble_detach
