#include "harness/parallel/sharded_unit.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>

#include "harness/measure/recorder.h"

namespace tidemark {

ShardedUnit::ShardedUnit(ShardedStep& step, const std::vector<ParameterShape>& shapes,
                         bool replicated)
    : step_(step), replicated_(replicated), index_(step.units.size()) {
  const CategoryScope category(MemoryKind::parameters, unit());
  const auto add = [&](const auto& shape) {
    parameters_.emplace_back(shape, step.stored, step.gathered, replicated ? 0 : step.rank(),
                             replicated ? 1 : step.ranks());
  };
  if (flat() && !replicated) {
    add(shapes);
  } else {
    for (const auto& shape : shapes) add(shape);
  }
  step.units.push_back(this);
}

void ShardedUnit::freeze(bool frozen) {
  frozen_ = frozen;
  for (auto& p : parameters_) p.freeze(frozen);
}

void ShardedUnit::prefetch(std::vector<ShardedUnit*> forward, std::vector<ShardedUnit*> backward) {
  forward_prefetch_ = std::move(forward);
  backward_prefetch_ = std::move(backward);
}

at::Tensor ShardedUnit::pre_forward(const at::Tensor& input) {
  return pre_forward(std::vector<at::Tensor>{input})[0];
}

std::vector<at::Tensor> ShardedUnit::pre_forward(std::vector<at::Tensor> inputs) {
  if (replicated_) return inputs;
  state_ = State::forward;
  unshard();
  wait_for_unshard();
  if (flat()) {  // as FSDP1: hence autograd runs the views' backwards on the gather stream, too
    const c10::cuda::CUDAStreamGuard guard(step_.gather_stream);
    views_ = parameters_[0].views();
  }
  if (at::GradMode::is_enabled()) attach_hooks(inputs);
  for (auto* unit : forward_prefetch_) unit->unshard();
  return inputs;
}

void ShardedUnit::attach_hooks(std::vector<at::Tensor>& inputs) {
  begin_backward_ = nullptr;
  if (flat() && !frozen_) return attach_to_accumulator();
  const auto policy = frozen_ ? step_.options.frozen : FrozenReshard::input_node;
  const auto needs_gradient = [](const at::Tensor& t) { return t.defined() && t.requires_grad(); };
  if (policy == FrozenReshard::input_node) {
    // The first input that needs a gradient is the one that is computed with the parameters.
    const auto first = std::ranges::find_if(inputs, needs_gradient);
    if (first == inputs.end()) return;
    *first = at::alias(*first);  // its gradient is there once the unit's own backward is over
    first->register_hook([this](const at::Tensor&) { post_backward(); });
  } else if (step_.options.hooks_frozen()) {
    std::vector<at::Tensor> hooked;
    std::ranges::copy_if(inputs, std::back_inserter(hooked), needs_gradient);
    if (hooked.empty()) return;
    const auto count = policy == FrozenReshard::input_hooks ? InputHooks::Count::all
                                                            : InputHooks::Count::will_execute;
    input_hooks_.emplace_back(
        hooked, count,
        InputHooks::Calls{[this] { step_.tell("hook", this); }, [this] { post_backward(); }});
    begin_backward_ = input_hooks_.back().begin();
  }
}

void ShardedUnit::attach_to_accumulator() {
  if (accumulator_) return;
  accumulator_ = torch::autograd::impl::grad_accumulator(parameters_[0].whole());
  accumulator_->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [this](const auto& outputs, const auto&) {
        post_backward();
        return outputs;
      }));
}

at::Tensor ShardedUnit::post_forward(const at::Tensor& output) {
  if (replicated_) return output;
  reshard();
  views_.clear();
  awaited_ = output.requires_grad();
  forward_indices_.push_back(step_.forward_order.size());
  step_.forward_order.push_back(this);
  state_ = State::idle;
  if (output.requires_grad()) {
    output.register_hook([this, begin = std::move(begin_backward_)](const at::Tensor&) {
      if (begin) begin();
      pre_backward();
    });
  }
  return output;
}

void ShardedUnit::unshard() {
  if (gathered_ || unsharded_) return;
  step_.tell("unshard", this);
  const at::NoGradGuard no_grad;
  gathered_ = gather();
}

void ShardedUnit::wait_for_unshard() {
  if (!gathered_) return;
  const at::NoGradGuard no_grad;
  if (flat()) {
    wait_for(c10::cuda::getCurrentCUDAStream(), step_.gather_stream);
    gathered_.reset();
    unsharded_ = true;
    return;
  }
  const bool defers =
      step_.options.layout == GatherLayout::separate_streams && state_ == State::forward;
  // The buffer before this one outlives this copy-out: FSDP2 holds it in a local until it returns.
  std::optional<ShardedStep::Deferred> before;
  if (state_ == State::forward && step_.deferred) {
    step_.gathers_wait_for(step_.deferred->copied_out);
    before.swap(step_.deferred);
  }
  if (step_.ranks() == 1) {
    copy_own();
  } else {
    copy_out(*gathered_);
  }
  unsharded_ = true;
  c10::cuda::CUDAEvent copied_out;
  copied_out.record(c10::cuda::getCurrentCUDAStream());
  if (defers && step_.ranks() > 1) {
    // The next copy-in may overlap this copy-out: the buffer goes once the next one has been copied
    // out.
    step_.deferred.emplace(ShardedStep::Deferred{std::move(*gathered_), std::move(copied_out)});
  } else {
    step_.gathers_wait_for(copied_out);
  }
  gathered_.reset();
  if (step_.ranks() > 1) step_.used_up();
}

void ShardedUnit::reshard() {
  if (state_ == State::forward && !step_.options.reshard_after_forward) return;
  if (!unsharded_) return;
  if (flat()) parameters_[0].whole().record_stream(c10::cuda::getCurrentCUDAStream());
  for (auto& p : parameters_) p.give_back();
  if (flat()) step_.used_up();
  unsharded_ = false;
  step_.tell("reshard", this);
}

void ShardedUnit::pre_backward() {
  if (state_ != State::pre_backward) step_.expect_end_of_backward();
  const bool by_order = backward_prefetch_.empty();
  if (state_ != State::pre_backward) {
    state_ = State::pre_backward;
    unshard();
    wait_for_unshard();
    if (by_order && !forward_indices_.empty()) {
      const auto index = forward_indices_.back();
      forward_indices_.pop_back();
      const bool ahead = index > 0 && step_.options.backward_prefetch;
      auto* before = ahead ? step_.forward_order[index - 1] : nullptr;
      // FSDP2 gathers it even where no backward of it is to come.
      if (before && (before->awaited_ || !flat())) before->unshard();
    }
  }
  for (auto* unit : backward_prefetch_) unit->unshard();
  if (frozen_ && step_.options.frozen == FrozenReshard::before_use) reshard();
  step_.tell("backward", this);
}

void ShardedUnit::post_backward() {
  state_ = State::post_backward;
  if (!sync_) {
    reshard();
    return;
  }
  std::vector<at::Tensor> gradients;
  std::vector<ShardedParameter*> owners;
  for (auto& p : parameters_) {
    if (!p.whole().defined() || !p.whole().grad().defined()) continue;
    owners.push_back(&p);
    gradients.push_back(p.whole().grad());
    p.whole().mutable_grad().reset();
  }
  reshard();
  if (gradients.empty()) return;
  if (flat()) {
    step_.tell("reduce", this);
    return reduce_flat(gradients[0]);
  }
  if (step_.reducing) {
    step_.reducing->end.block(c10::cuda::getCurrentCUDAStream());
    step_.reducing.reset();
  }
  wait_for_post_backward();
  step_.tell("reduce", this);
  reduce(std::move(gradients), owners);
}

void ShardedUnit::end_backward() {
  if (replicated_) return;
  const auto& options = step_.options;
  const bool reached = state_ == State::pre_backward || state_ == State::post_backward;
  const bool kept =
      frozen_ && (options.frozen == FrozenReshard::never || (options.catch_all_misses && !reached));
  if (state_ != State::post_backward && !kept) post_backward();
  state_ = State::idle;
  if (options.root_decides_sync && step_.root_sync) {
    // What has been reduced is no longer needed unsharded; but this unit may not have been.
    for (auto& p : parameters_) {
      if (p.whole().defined()) p.whole().mutable_grad().reset();
    }
  }
  if (options.remove_hooks) {
    std::erase_if(input_hooks_, [](InputHooks& hooks) {
      if (hooks.over()) hooks.remove();
      return hooks.over();
    });
  }
  wait_for_post_backward();
  if (gathered_) {  // gathered ahead for a backward that never came
    if (gathered_->work) {
      gathered_->work->wait();
    } else {
      gathered_->end.block(c10::cuda::getCurrentCUDAStream());
      // Its buffer goes back to the copy-in stream, and where the next backward follows without a
      // forward in between, nothing else keeps that from filling it while it is being gathered.
      // (FSDP2 lacks this wait.)
      step_.gathers_wait_for(gathered_->end);
    }
    gathered_.reset();
  }
  forward_indices_.clear();
}

void ShardedUnit::gather_again() {
  unshard();
  wait_for_unshard();
}

void ShardedUnit::free_regathered() {
  if (!frozen_) reshard();
}

void ShardedUnit::abandon() {
  if (replicated_) return;
  state_ = State::idle;
  for (auto& p : parameters_) {
    if (p.whole().defined()) p.whole().mutable_grad().reset();
  }
  if (flat()) wait_for_unshard();  // it is whole, and freed below
  gathered_.reset();
  reshard();
  forward_indices_.clear();
  for (auto& hooks : input_hooks_) hooks.remove();
  input_hooks_.clear();
  post_reduce_.reset();
}

void ShardedUnit::wait_for_post_backward() {
  if (post_reduce_) post_reduce_->block(c10::cuda::getCurrentCUDAStream());
  post_reduce_.reset();
}

}  // namespace tidemark
