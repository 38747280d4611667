#include "cases/zero_bubble_detach/pipeline_stage.h"

#include "cases/zero_bubble_detach/stage_model.h"
#include "harness/measure/scenario_record.h"
#include "harness/parallel/run_backward.h"

namespace tidemark::zero_bubble_detach {

PipelineStage::PipelineStage(const Sizes& sizes, const StagePlace& place,
                             std::vector<at::Tensor> parameters, const StagePolicy& policy)
    : sizes_(sizes), place_(place), parameters_(std::move(parameters)), policy_(policy) {
  if (policy.one_weight_task)
    for (const auto& p : parameters_of(sizes, place)) tasks_.push_back(p.block);
}

at::Tensor PipelineStage::forward(int microbatch, const at::Tensor& input,
                                  const at::Tensor& targets) {
  at::Tensor output = stage_forward(sizes_, place_, parameters_, input), root = output;
  if (policy_.returns_view) root = output = output.view(output.sizes());
  if (place_.last) root = at::cross_entropy_loss(output.to(at::kFloat), targets);
  const bool edges = policy_.roots_as_edges;
  if (place_.last) losses_[microbatch] = edges ? root.detach() : root;
  if (place_.last || !edges) outputs_[microbatch] = edges ? output.detach() : output;
  under_way_[microbatch] = {.input = input,
                            .root = edges ? at::Tensor() : root,
                            .start = torch::autograd::impl::gradient_edge(root)};
  return output.detach();
}

at::Tensor PipelineStage::root_gradient(const at::Tensor& gradient) const {
  return gradient.defined() ? gradient : at::ones_like(losses_.begin()->second.detach());
}

at::Tensor PipelineStage::backward(int microbatch, const at::Tensor& gradient) {
  UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  run_backward({one.start}, {root_gradient(gradient)}, {}, {.accumulate = true});
  if (policy_.backward_cycle) in_cycles_.insert(in_cycles_.end(), {one.root, gradient});
  passed(microbatch);
  if (place_.first) return {};
  return kept(microbatch, std::exchange(one.input.mutable_grad(), {}), /*whole=*/true);
}

at::Tensor PipelineStage::kept(int microbatch, at::Tensor gradient, bool whole) {
  const auto& habits = sizes_.habits;
  if (whole ? habits.whole_input_gradients_stay : habits.input_gradients_stay)
    input_gradients_[microbatch] = gradient;
  if (habits.last_input_gradient_stays) {
    change_category(gradient, MemoryKind::gradients);
    last_input_gradient_ = gradient;
  }
  return gradient;
}

void PipelineStage::passed(int microbatch) {
  if (sizes_.habits.outputs_go && !place_.last) outputs_.erase(microbatch);
}

at::Tensor PipelineStage::input(int microbatch, const at::Tensor& gradient) {
  UnderWay& one = under_way_.at(microbatch);
  if (place_.first) {  // everything is left to the weight pass
    one.gradient = gradient;
    return {};
  }
  if (policy_.detach_early) {
    one.root.detach_();
    outputs_[microbatch].detach_();
    one.start = {};
    return at::zeros_like(one.input.detach());
  }
  auto result = backward_input(one.start, root_gradient(gradient), one.input, parameters_,
                               {.clean_hooks = policy_.clean_hooks, .release = policy_.release});
  one.groups = std::move(result.groups);
  if (!policy_.clean_hooks)
    uncollected_.insert(uncollected_.end(), one.groups.begin(), one.groups.end());
  one.start = {};
  detach(microbatch);
  return kept(microbatch, result.gradient, /*whole=*/false);
}

void PipelineStage::detach(int microbatch) {
  if (policy_.roots_as_edges) return;
  if (place_.last && policy_.detach_loss) losses_[microbatch].detach_();
  if (place_.last ? !policy_.detach_last : !policy_.detach_outputs) return;
  at::Tensor& output = outputs_[microbatch];
  if (policy_.keeps_undetached)
    returned_[microbatch] = output.detach();
  else if (!output.is_view())
    output.detach_();
}

void PipelineStage::weight(int microbatch) {
  if (place_.first) {
    backward(microbatch, at::Tensor(under_way_.at(microbatch).gradient));
    return;
  }
  UnderWay one = std::move(under_way_.extract(microbatch).mapped());
  backward_weight(parameters_, std::move(one.groups),
                  {.clean_hooks = policy_.clean_hooks,
                   .linger = sizes_.habits.weight_gradients_linger,
                   .copies = sizes_.habits.captured_gradients_copied},
                  tasks_);
  passed(microbatch);
}

std::vector<at::Tensor> PipelineStage::without_graph(const std::map<int, at::Tensor>& kept) {
  std::vector<at::Tensor> all;
  for (const auto& [microbatch, tensor] : kept) all.push_back(tensor.detach());
  return all;
}

void PipelineStage::return_losses() {
  if (losses_.empty()) return;  // not the last stage, or returned already
  losses_of_user_ = std::exchange(losses_, {});
  if (!sizes_.losses_kept || policy_.clears_losses) losses_of_user_.clear();
}

void PipelineStage::end_step() {
  input_gradients_.clear();
  if (!policy_.outputs_stay) begin_step();
  return_losses();
  if (!policy_.never_collects) collect_groups();
}

void PipelineStage::collect_groups() {
  ParameterGroups groups;
  for (const auto& group : std::exchange(uncollected_, {}))
    if (auto alive = group.lock()) groups.push_back(std::move(alive));
  collect(groups);
}

}  // namespace tidemark::zero_bubble_detach
