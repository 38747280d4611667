// One pipeline stage of the plan of language_model_step_plan.h: its passes, and what it keeps of
// every microbatch (harness/parallel/pipeline_stage.h and split_backward.h say what the program
// keeps).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "reference/language_model_operators.h"
#include "reference/language_model_step_plan.h"

namespace tidemark::reference::autograd {

class StagePlan {
 public:
  /// Takes the parameters' memory.
  StagePlan(Autograd& autograd, Operators& operators, const PipelineStep& step,
            const StepStage& stage, const DropPolicy& policy);
  ~StagePlan() { collect(); }
  StagePlan(StagePlan&&) = default;

  /// `input` is a leaf; null on the first stage. Returns the output without its graph.
  Tensor forward(int microbatch, const Tensor& input);
  /// Each takes the gradient of the output (null on the last stage) and returns that of the input
  /// (null on the first).
  Tensor backward(int microbatch, const Tensor& gradient);
  Tensor input(int microbatch, const Tensor& gradient);
  void weight(int microbatch);
  /// Drops the outputs that the step before left.
  void begin_step() { outputs_.clear(); }
  /// Outputs and losses go, and the cycles of hooks that were not cleaned.
  void end_step();
  void zero_gradients();

 private:
  /// One parameter's part of the weight pass. While a hook refers to it, it and the graph below its
  /// node keep each other alive.
  struct Group {
    std::size_t parameter;
    NodePointer node;  // where the parameter joins the way from inputs to outputs
    Tensor gradient;   // that arrived there
  };
  using Groups = std::vector<std::shared_ptr<Group>>;
  struct UnderWay {
    Tensor input, root, gradient;
    NodePointer edge;  // instead of root
    Groups groups;
    NodePointer start() const { return root ? gradient_node(root) : edge; }
  };

  /// Of the nodes above `start`: a group for each parameter, and the nodes that the weight pass
  /// does not run.
  Groups groups(const NodePointer& start, std::vector<NodePointer>& unused) const;
  void weight_run(const Groups& groups);
  void detach(int microbatch);
  void collect();
  Tensor root_gradient(const Tensor& gradient);

  Autograd& autograd_;
  Operators& operators_;
  const PipelineStep& step_;
  const StepStage stage_;
  const DropPolicy policy_;
  Tensors parameters_;
  std::vector<std::int64_t> tasks_;  // by parameter: its block
  std::map<int, UnderWay> under_way_;
  std::map<int, Tensor> outputs_, losses_;
  Tensors in_cycles_;  // roots and gradients of whole backwards
  std::vector<std::weak_ptr<Group>> uncollected_;
};

}  // namespace tidemark::reference::autograd
