// A group of sharded parameters that are gathered and reduced together around one part of the
// model: FSDP2's parameter group; with GatherLayout::flat FSDP1's handle of a flat parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/parallel/input_hooks.h"
#include "harness/parallel/sharded_parameter.h"
#include "harness/parallel/sharded_step.h"

namespace torch::autograd {
struct Node;
}

namespace tidemark {

class ShardedUnit {
 public:
  /// Registers itself with `step`, in order of construction; `step` must outlive it.
  /// `replicated`: every rank has all of its parameters at all times, and they stay frozen.
  ShardedUnit(ShardedStep& step, const std::vector<ParameterShape>& shapes,
              bool replicated = false);
  ShardedUnit(const ShardedUnit&) = delete;
  ShardedUnit& operator=(const ShardedUnit&) = delete;

  /// Units to gather ahead of their own turn, as soon as this one is ready. Without `backward`, the
  /// unit whose forward came before this one's.
  void prefetch(std::vector<ShardedUnit*> forward, std::vector<ShardedUnit*> backward);

  /// The weight, whole, between pre_forward and post_forward (and, for autograd, in backward).
  const at::Tensor& operator[](std::size_t i) const {
    if (replicated_) return parameters_[i].shard();
    return flat() ? views_[i] : parameters_[i].whole();
  }
  /// The parameters; in a flat layout one, whatever the number of weights.
  std::vector<ShardedParameter>& parameters() { return parameters_; }

  bool replicated() const { return replicated_; }
  /// Place in the step's list.
  std::size_t index() const { return index_; }
  /// Freezes all parameters of the unit, or makes them trained. To be called between steps.
  void freeze(bool frozen);
  bool frozen() const { return frozen_; }
  /// True if the coming backwards reduce this unit's gradients; without, they add up unsharded.
  void set_sync(bool sync) { sync_ = sync; }
  bool unsharded() const { return unsharded_; }

  /// Gathers, waits, and returns `input` with the post-backward hook attached (where it requires a
  /// gradient).
  at::Tensor pre_forward(const at::Tensor& input);
  /// Gathers, waits, and returns several inputs with the hook; undefined ones stay undefined.
  std::vector<at::Tensor> pre_forward(std::vector<at::Tensor> inputs);
  /// Reshards and returns `output` with the pre-backward hook attached.
  at::Tensor post_forward(const at::Tensor& output);

  /// Out of turn: what a hook does that reads the parameters of a unit whose backward is over.
  void gather_again();

  // Called by the step.
  void end_backward();
  void free_regathered();
  void abandon();

 private:
  enum class State { idle, forward, pre_backward, post_backward };

  /// Its name in the record: "units.3".
  std::string unit() const { return "units." + std::to_string(index_); }
  bool flat() const { return step_.options.layout == GatherLayout::flat; }
  void attach_hooks(std::vector<at::Tensor>& inputs);
  void attach_to_accumulator();
  void unshard();
  void wait_for_unshard();
  void reshard();
  void pre_backward();
  void post_backward();
  /// Elements of each parameter in what a rank sends.
  std::vector<std::int64_t> split() const;
  Gathered gather();
  Gathered gather_flat();
  void copy_out(Gathered& gathered);
  void copy_own();  // one rank: nothing to gather
  void reduce(std::vector<at::Tensor> gradients, const std::vector<ShardedParameter*>& owners);
  void reduce_flat(const at::Tensor& gradient);
  void wait_for_post_backward();

  ShardedStep& step_;
  std::vector<ShardedParameter> parameters_;
  std::vector<at::Tensor> views_;                       // of a flat parameter, in forward
  std::shared_ptr<torch::autograd::Node> accumulator_;  // of its gradient
  std::vector<ShardedUnit*> forward_prefetch_, backward_prefetch_;
  State state_ = State::idle;
  const bool replicated_;
  bool unsharded_ = false, frozen_ = false, sync_ = true;
  bool awaited_ = false;  // the output of its last forward needs a gradient
  std::size_t index_ = 0;
  std::vector<InputHooks> input_hooks_;   // of calls whose backward is to come
  std::function<void()> begin_backward_;  // of the call whose forward is under way; may be empty
  std::optional<Gathered> gathered_;
  std::vector<std::size_t> forward_indices_;  // of this unit's forwards in the step's order
  std::optional<c10::cuda::CUDAEvent> post_reduce_;
};

}  // namespace tidemark
