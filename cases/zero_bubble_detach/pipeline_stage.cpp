#include "cases/zero_bubble_detach/pipeline_stage.h"

#include <ATen/ATen.h>

#include "harness/measure/allocator_trace.h"
#include "harness/parallel/run_backward.h"

namespace tidemark::zero_bubble_detach {

PipelineStage::PipelineStage(Model model, StagePolicy policy)
    : model_(std::move(model)), policy_(policy) {}

PipelineStage::~PipelineStage() { collect_groups(); }

at::Tensor PipelineStage::forward(int microbatch, const at::Tensor& input) {
  at::Tensor output = model_.forward(input);
  if (policy_.returns_view) output = output.view(output.sizes());
  UnderWay& one = under_way_[microbatch];
  one.input = input;
  at::Tensor root = output;
  if (model_.loss) root = losses_[microbatch] = model_.loss(output, microbatch);
  if (policy_.roots_as_edges) {
    one.edge = gradient_edge(root);
    if (model_.loss) {
      losses_[microbatch] = root.detach();
      outputs_[microbatch] = output.detach();
    }
  } else {
    one.root = root;
    outputs_[microbatch] = output;
  }
  return output.detach();
}

at::Tensor PipelineStage::root_gradient(const UnderWay& one, const at::Tensor& gradient) {
  if (gradient.defined()) return gradient;
  const at::Tensor like = one.root.defined() ? one.root : losses_.begin()->second;
  return at::ones_like(like.detach());
}

at::Tensor PipelineStage::backward(int microbatch, const at::Tensor& gradient) {
  UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  run_backward({one.start()}, {root_gradient(one, gradient)}, {}, {.accumulate = true});
  if (policy_.backward_cycle) in_cycles_.insert(in_cycles_.end(), {one.root, gradient});
  passed(microbatch);
  if (model_.first) return {};
  return kept(microbatch, std::exchange(one.input.mutable_grad(), {}), /*whole=*/true);
}

at::Tensor PipelineStage::kept(int microbatch, at::Tensor gradient, bool whole) {
  const auto& habits = policy_.habits;
  if (whole ? habits.whole_input_gradients_stay : habits.input_gradients_stay)
    input_gradients_[microbatch] = gradient;
  if (habits.last_input_gradient_stays) {
    change_category(gradient, "gradients");
    last_input_gradient_ = gradient;
  }
  return gradient;
}

void PipelineStage::passed(int microbatch) {
  if (policy_.habits.outputs_go && !model_.loss) outputs_.erase(microbatch);
}

at::Tensor PipelineStage::input(int microbatch, const at::Tensor& gradient) {
  UnderWay& one = under_way_.at(microbatch);
  if (model_.first) {  // everything is left to the weight pass
    one.gradient = gradient;
    return {};
  }
  if (policy_.detach_early) {
    one.root.detach_();
    outputs_[microbatch].detach_();
    return at::zeros_like(one.input.detach());
  }
  auto result =
      backward_input(one.start(), root_gradient(one, gradient), one.input, model_.parameters,
                     {.clean_hooks = policy_.clean_hooks, .release = policy_.release});
  one.groups = std::move(result.groups);
  if (!policy_.clean_hooks)
    uncollected_.insert(uncollected_.end(), one.groups.begin(), one.groups.end());
  one.edge = {};
  detach(microbatch);
  return kept(microbatch, result.gradient, /*whole=*/false);
}

void PipelineStage::detach(int microbatch) {
  const bool last = static_cast<bool>(model_.loss);
  if (policy_.roots_as_edges) return;
  if (last && policy_.detach_loss) losses_[microbatch].detach_();
  if (last ? !policy_.detach_last : !policy_.detach_outputs) return;
  at::Tensor& output = outputs_[microbatch];
  if (policy_.keeps_undetached)
    returned_[microbatch] = output.detach();
  else if (!output.is_view())
    output.detach_();
}

void PipelineStage::weight(int microbatch) {
  if (model_.first) {
    const at::Tensor gradient = under_way_.at(microbatch).gradient;
    backward(microbatch, gradient);
    return;
  }
  UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  backward_weight(model_.parameters, std::move(one.groups),
                  {.clean_hooks = policy_.clean_hooks,
                   .linger = policy_.habits.weight_gradients_linger,
                   .copies = policy_.habits.captured_gradients_copied},
                  policy_.one_weight_task ? model_.tasks : std::vector<int>{});
  passed(microbatch);
}

at::Tensor PipelineStage::mean_loss() const {
  std::vector<at::Tensor> all;
  for (const auto& [microbatch, loss] : losses_) all.push_back(loss.detach());
  return at::stack(all).mean();
}

at::Tensor PipelineStage::merged_outputs() const {
  std::vector<at::Tensor> all;
  for (const auto& [microbatch, output] : outputs_) all.push_back(output.detach());
  return at::cat(all);
}

void PipelineStage::begin_step() {
  outputs_.clear();
  returned_.clear();
}

void PipelineStage::end_step() {
  input_gradients_.clear();
  if (!policy_.outputs_stay) begin_step();
  losses_.clear();
  if (!policy_.never_collects) collect_groups();
}

void PipelineStage::collect_groups() {
  ParameterGroups groups;
  for (const auto& group : std::exchange(uncollected_, {}))
    if (auto alive = group.lock()) groups.push_back(std::move(alive));
  collect(groups);
}

}  // namespace tidemark::zero_bubble_detach
