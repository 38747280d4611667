// The parts of the plan that the replay follows, on the model of autograd: the language
// model, and the passes of a pipeline stage. Nothing here is measured, or read from the program.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "cases/zero_bubble_detach/policy.h"
#include "reference/memory/autograd_operators.h"

namespace tidemark::zero_bubble_detach {

using namespace reference::autograd;
using reference::Amount;

/// The language model's layers.
class LanguageModel : public Operators {
 public:
  LanguageModel(Autograd& autograd, const Sizes& sizes, const reference::DeviceFacts& device);

  Tensor embedding(const Tensor& weight);
  Tensor norm(const Tensor& x, const Tensor& weight);
  /// Mean cross entropy of logits that become single precision first.
  Tensor cross_entropy(const Tensor& logits);

  /// One block, and its parameters in bytes.
  Tensor block(const Tensor& x, const Tensors& parameters);
  std::vector<Amount> block_parameters() const;

  /// Rows of `width` for the tokens of a microbatch.
  Amount tokens_by(std::int64_t width, std::string_view symbol) const {
    return {sizes_.tokens * width * sizes_.element(), symbol};
  }

 private:
  /// RMSNorm of bf16 activations in single precision, but for the product with the weight.
  Tensor norm_in_floats(const Tensor& x, const Tensor& weight);

  const Sizes sizes_;
  const reference::AttentionPlan attention_;
  const reference::LookupPlan lookup_;
  const reference::SumOfRowsPlan sum_;
};

/// One pipeline stage: its passes, and what it keeps of every microbatch
/// (cases/zero_bubble_detach/pipeline_stage.h and split_backward.h say what the program keeps).
class StagePlan {
 public:
  /// Takes the parameters' memory.
  StagePlan(Autograd& autograd, LanguageModel& model, const Sizes& sizes, const StagePlace& place,
            const StagePolicy& policy);
  ~StagePlan() { collect(); }

  /// `input` is a leaf; null on the first stage. Returns the output without its graph.
  Tensor forward(int microbatch, const Tensor& input);
  /// Each takes the gradient of the output (null on the last stage) and returns that of the input
  /// (null on the first).
  Tensor backward(int microbatch, const Tensor& gradient);
  Tensor input(int microbatch, const Tensor& gradient);
  void weight(int microbatch);
  /// Drops the outputs that the step before left.
  void begin_step() { outputs_.clear(); }
  /// Losses go to the user, who drops those of the step before.
  void return_losses();
  /// Outputs and gradients of inputs go, and the cycles of hooks that were not cleaned.
  void end_step();
  void drop_losses_of_user() { losses_of_user_.clear(); }
  void zero_gradients() {
    for (auto& parameter : parameters_) parameter->gradient.reset();
  }
  const StagePlace& place() const { return place_; }

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
    NodePointer start;  // of the backward; the input pass drops it
    Groups groups;
  };

  /// A group for each parameter, and the nodes that the weight pass does not run.
  Groups groups(const UnderWay& one, std::vector<NodePointer>& unused) const;
  /// Returns the gradients that were added to those there. `copy`: of the run before.
  Tensors weight_run(const Groups& groups, Tensor& copy);
  /// After the last pass.
  void passed(int microbatch);
  /// The gradient of a microbatch's input, which may stay; `whole`: of a whole backward.
  Tensor kept(int microbatch, const Tensor& gradient, bool whole);
  void collect();
  Tensor root_gradient(const Tensor& own) { return own ? own : autograd_.make({4, "loss"}); }

  Autograd& autograd_;
  LanguageModel& model_;
  const Sizes& sizes_;
  const StagePlace place_;
  const StagePolicy policy_;
  Tensors parameters_;
  std::map<int, UnderWay> under_way_;
  std::map<int, Tensor> outputs_, losses_, losses_of_user_, input_gradients_;
  Tensor last_input_gradient_;
  Tensors in_cycles_;  // roots and gradients of whole backwards
  std::vector<std::weak_ptr<Group>> uncollected_;
};

}  // namespace tidemark::zero_bubble_detach
