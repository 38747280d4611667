#include "harness/parallel/sharded_unit.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/recorder.h"

namespace tidemark {
namespace {

/// Identity whose backward runs once the gradient of a unit's input is there, hence after the
/// unit's own backward.
struct PostBackward : torch::autograd::Function<PostBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& input,
                            ShardedUnit* unit) {
    ctx->saved_data["unit"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(unit));
    return input;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    const auto unit = static_cast<std::intptr_t>(ctx->saved_data["unit"].toInt());
    reinterpret_cast<ShardedUnit*>(unit)->post_backward();
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

ShardedUnit::ShardedUnit(ShardedStep& step, const std::vector<ParameterShape>& shapes)
    : step_(step) {
  const CategoryScope category("parameters");
  for (const auto& shape : shapes) {
    parameters_.emplace_back(shape, step.options.stored, step.options.gathered, step.rank(),
                             step.ranks());
  }
  step.units.push_back(this);
}

void ShardedUnit::prefetch(std::vector<ShardedUnit*> forward, std::vector<ShardedUnit*> backward) {
  forward_prefetch_ = std::move(forward);
  backward_prefetch_ = std::move(backward);
}

at::Tensor ShardedUnit::pre_forward(const at::Tensor& input) {
  state_ = State::forward;
  unshard();
  wait_for_unshard();
  at::Tensor hooked = input.requires_grad() && at::GradMode::is_enabled()
                          ? PostBackward::apply(input, this)
                          : input;
  for (auto* unit : forward_prefetch_) unit->prefetch_unshard(State::forward);
  return hooked;
}

at::Tensor ShardedUnit::post_forward(const at::Tensor& output) {
  reshard();
  forward_indices_.push_back(step_.forward_order.size());
  step_.forward_order.push_back(this);
  state_ = State::idle;
  if (output.requires_grad()) {
    output.register_hook([this](const at::Tensor&) { pre_backward(); });
  }
  return output;
}

void ShardedUnit::unshard() {
  if (gathered_ || unsharded_) return;
  const at::NoGradGuard no_grad;
  gathered_ = gather();
}

void ShardedUnit::prefetch_unshard(State state) {
  const State before = state_;
  state_ = state;
  unshard();
  state_ = before;
}

void ShardedUnit::wait_for_unshard() {
  if (!gathered_) return;
  const at::NoGradGuard no_grad;
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
  if (step_.ranks() > 1) step_.copied_out();
}

void ShardedUnit::reshard() {
  if (state_ == State::forward && !step_.options.reshard_after_forward) return;
  if (!unsharded_) return;
  for (auto& p : parameters_) p.give_back();
  unsharded_ = false;
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
      if (index > 0) step_.forward_order[index - 1]->prefetch_unshard(State::pre_backward);
    }
  }
  for (auto* unit : backward_prefetch_) unit->prefetch_unshard(State::pre_backward);
}

void ShardedUnit::post_backward() {
  state_ = State::post_backward;
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
  if (step_.reducing) {
    step_.reducing->end.block(c10::cuda::getCurrentCUDAStream());
    step_.reducing.reset();
  }
  wait_for_post_backward();
  reduce(std::move(gradients), owners);
}

void ShardedUnit::end_backward() {
  if (state_ != State::post_backward) post_backward();
  state_ = State::idle;
  wait_for_post_backward();
  if (gathered_) {  // gathered ahead for a backward that never came
    if (gathered_->work) {
      gathered_->work->wait();
    } else {
      gathered_->end.block(c10::cuda::getCurrentCUDAStream());
    }
    gathered_.reset();
  }
  forward_indices_.clear();
}

void ShardedUnit::wait_for_post_backward() {
  if (post_reduce_) post_reduce_->block(c10::cuda::getCurrentCUDAStream());
  post_reduce_.reset();
}

}  // namespace tidemark
