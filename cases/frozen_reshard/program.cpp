#include "cases/frozen_reshard/program.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <string_view>

#include "cases/numbers.h"
#include "harness/parallel/freezing.h"
#include "harness/parallel/run_backward.h"
#include "harness/ranks/world.h"
#include "reference/sharded_plan.h"

namespace tidemark::frozen_reshard {
Training::Training(const Trial& trial, const Policy& policy, const World& world)
    : trial_(trial),
      policy_(policy),
      setup_(setup_of(trial, policy, world.rank())),
      numbers_(trial.mode == Mode::math),
      communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr),
      step_(communicator_.get(), options_of(policy, setup_)),
      model_(step_, shape_of(setup_)),
      parameters_(model_.parameters()),
      inputs_(static_cast<std::size_t>(setup_.microbatches)),
      losses_(inputs_.size()) {
  step_.observe = [this](const char* what, ShardedUnit* unit) { observe(what, unit); };
  if (!numbers_) return;
  for (auto* p : parameters_) fill(trial.seed, p->name(), p->shard_offset(), p->shard());
  for (std::size_t i = 0; i < model_.shared_inputs().size(); ++i)
    fill(trial.seed, "shared." + std::to_string(i), 0, model_.shared_inputs()[i]);
}

Training::~Training() = default;

at::Tensor Training::input(int step, std::int64_t microbatch) {
  const CategoryScope category("inputs");
  auto x = at::empty({setup_.rows, setup_.hidden},
                     at::TensorOptions().dtype(step_.options.stored).device(at::kCUDA));
  const auto name = "input." + std::to_string(step) + "." + std::to_string(microbatch);
  if (numbers_) fill(trial_.seed, name, step_.rank() * x.numel(), x);
  return x.requires_grad_(setup_.input_gradient);
}

void Training::observe(const char* what, ShardedUnit* unit) {
  if (!recorder_) return;
  if (unit) {
    const auto name = reference::unit_name(unit->index());
    recorder_->call(what, name);
    if (std::string_view(what) == "backward") recorder_->moment(name + setup_.suffix(microbatch_));
  } else if (std::string_view(what) == "finalised") {
    if (policy_.stays_regathered) gather_finished_unit();
  } else {
    recorder_->call(what, "step");
    recorder_->moment(what + setup_.suffix(microbatch_));
  }
}

// Say, to log the norm of its weights.
void Training::gather_finished_unit() {
  for (auto& unit : model_.units()) {
    if (unit->frozen()) continue;
    unit->gather_again();
    return;
  }
}

void Training::zero_gradients(int index) {
  const auto& frozen = setup_.step(index).frozen;
  for (std::size_t i = 0; i < frozen.size(); ++i) model_.units()[i]->freeze(frozen[i]);
  for (auto* p : parameters_) p->gradient.reset();
  for (auto& shared : model_.shared_inputs()) shared.mutable_grad().reset();
  const CategoryScope category("outputs");
  loss_ = at::zeros({}, at::TensorOptions().dtype(step_.options.stored).device(at::kCUDA));
}

void Training::forward(int index, std::int64_t microbatch) {
  const auto m = static_cast<std::size_t>(microbatch);
  inputs_[m] = input(index, microbatch);
  // Row by row and then over the rows: the same temporaries whatever the number of rows.
  losses_[m] = at::mean(at::mean(model_.forward(inputs_[m]), 1), 0);
}

bool Training::backward(int index, std::int64_t microbatch) {
  const auto m = static_cast<std::size_t>(microbatch);
  microbatch_ = microbatch;
  const auto& synced = setup_.step(index).synced[m];
  for (std::size_t i = 0; i < synced.size(); ++i) model_.units()[i]->set_sync(synced[i]);
  step_.root_sync = trial_["no_sync"] != static_cast<std::int64_t>(NoSync::but_last) ||
                    microbatch + 1 == setup_.microbatches;
  const double share = 1.0 / static_cast<double>(setup_.microbatches);
  loss_.add_(losses_[m].detach(), share);
  const CategoryScope category("gradients");
  const auto weight = at::full({}, share, losses_[m].options().requires_grad(false));
  bool held = true;
  try {
    torch::autograd::backward({losses_[m]}, {weight});
  } catch (const c10::Error& error) {
    if (!reads_freed_parameter(error)) throw;
    release_last_run(weight);
    recorder_->call("freed parameter used", "step");
    step_.abandon();
    held = false;
  }
  losses_[m].reset();
  return held;
}

void Training::step(int index, Recorder& recorder) {
  recorder_ = &recorder;
  recorder.phase("zero_grad");
  zero_gradients(index);

  bool held = true;
  const auto together = setup_.in_flight ? setup_.microbatches : 1;
  for (std::int64_t first = 0; first < setup_.microbatches && held; first += together) {
    recorder.phase("forward" + (setup_.in_flight ? "" : setup_.suffix(first)));
    for (auto m = first; m < first + together; ++m) forward(index, m);
    for (auto m = first; m < first + together && held; ++m) {
      recorder.phase("backward" + setup_.suffix(m));
      held = backward(index, m);
    }
  }
  // The mean over the ranks, for the report.
  if (communicator_) communicator_->all_reduce(loss_, Reduction::average, {});
  recorder.loss(loss_);

  recorder.phase("optimizer");
  if (held) {
    recorder.gradients(gradients_of(parameters_));
    adam_step(adam_, parameters_);
  }
  if (communicator_) recorder.record.counters.collectives = communicator_->calls();
  if (!held) losses_.assign(losses_.size(), at::Tensor());
  recorder_ = nullptr;
}

std::vector<Shard> Training::parameters() { return shards_of(parameters_); }

}  // namespace tidemark::frozen_reshard
