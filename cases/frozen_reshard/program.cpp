// The training step: freeze, zero gradients, forward and backward of every microbatch, Adam over
// what has a gradient; the same code for every variant.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <string_view>

#include "cases/frozen_reshard/policy.h"
#include "cases/numbers.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/run_backward.h"
#include "harness/parallel/sharded_unit.h"
#include "harness/ranks/world.h"
#include "reference/linear_chain.h"

namespace tidemark::frozen_reshard {
namespace {

class LinearChain {
 public:
  LinearChain(ShardedStep& step, const Setup& setup) : step_(step), setup_(setup) {
    const auto h = setup.hidden, r = setup.adapter_rank;
    const auto& frozen = setup.steps.front().frozen;
    const auto add = [&](const std::vector<ParameterShape>& shapes) {
      const bool whole = setup.sharding.replicates_frozen() && frozen[units_.size()];
      units_.push_back(std::make_unique<ShardedUnit>(step, shapes, whole));
    };
    for (std::int64_t i = 0; i < setup.layers; ++i) {
      const auto layer = "layers." + std::to_string(i);
      std::vector<ParameterShape> weights;
      for (auto k = i * setup.weights(); k < (i + 1) * setup.weights(); ++k)
        weights.push_back({"layers." + std::to_string(k) + ".fc.weight", {h, h}});
      add(weights);
      if (r > 0)
        add({{layer + ".adapter_fc_a.weight", {r, h}}, {layer + ".adapter_fc_b.weight", {h, r}}});
    }
    const CategoryScope category(MemoryKind::parameters);
    for (std::int64_t i = 0; setup.shared_input && i < setup.layers; ++i)
      shared_.push_back(at::empty({h}, at::TensorOptions().dtype(step.stored).device(at::kCUDA))
                            .requires_grad_(true));
  }

  /// [rows, hidden] to the same.
  at::Tensor forward(const at::Tensor& input) {
    step_.begin_forward();
    auto x = input;
    std::size_t next = 0;
    for (std::size_t layer = 0; next < units_.size(); ++layer) {
      auto& unit = *units_[next++];
      const auto inputs = unit.pre_forward({x, shared_.empty() ? at::Tensor() : shared_[layer]});
      auto y = at::linear(inputs[0], unit[0]);
      if (setup_.mixed) y = at::linear(y, unit[1]);
      if (inputs[1].defined()) y = y + inputs[1];
      if (!setup_.nested) y = unit.post_forward(y);
      if (setup_.adapter_rank > 0) {
        auto& adapter = *units_[next++];
        const auto hooked = adapter.pre_forward(setup_.nested ? inputs[0] : x);
        const auto z = adapter.post_forward(at::linear(at::linear(hooked, adapter[0]), adapter[1]));
        x = y + z;
        if (setup_.nested) x = unit.post_forward(x);
      } else {
        x = y;
      }
    }
    step_.end_forward();
    return x;
  }

  std::vector<std::unique_ptr<ShardedUnit>>& units() { return units_; }
  /// In the model's order.
  std::vector<ShardedParameter*> parameters() {
    std::vector<ShardedParameter*> all;
    for (auto& unit : units_)
      for (auto& p : unit->parameters()) all.push_back(&p);
    return all;
  }
  /// A layer's shared input, [hidden] each; empty without.
  std::vector<at::Tensor>& shared_inputs() { return shared_; }

 private:
  ShardedStep& step_;
  const Setup& setup_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<at::Tensor> shared_;
};

class Training final : public Program {
 public:
  Training(const Trial& trial, const Policy& policy, const World& world)
      : trial_(trial),
        setup_(setup_of(trial, policy, world.rank())),
        communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr),
        step_(communicator_.get(), setup_.sharding),
        model_(step_, setup_),
        parameters_(model_.parameters()),
        inputs_(static_cast<std::size_t>(setup_.microbatches)),
        losses_(inputs_.size()) {
    step_.observe = [this](const char* what, ShardedUnit* unit) { observe(what, unit); };
    if (trial.mode == Mode::shapes) return;
    for (const auto& weight : shards_of(parameters_))
      fill(trial.seed, weight.name, weight.offset, weight.values, step_of(weight.name));
    auto& shared = model_.shared_inputs();
    for (std::int64_t i = 0; i < std::ssize(shared); ++i)  // named by the weight before it
      fill(trial.seed, "shared." + std::to_string((i + 1) * setup_.weights() - 1), 0,
           shared[static_cast<std::size_t>(i)]);
  }

  void step(int index, Recorder& recorder) override {
    recorder_ = &recorder;
    recorder.phase("zero_grad");
    zero_gradients(index);

    bool succeeded = true;
    const auto together = setup_.in_flight ? setup_.microbatches : 1;
    for (std::int64_t first = 0; first < setup_.microbatches && succeeded; first += together) {
      recorder.phase("forward" + (setup_.in_flight ? "" : setup_.suffix(first)));
      for (auto m = first; m < first + together; ++m) forward(index, m);
      for (auto m = first; m < first + together && succeeded; ++m) {
        recorder.phase("backward" + setup_.suffix(m));
        succeeded = backward(index, m);
      }
    }
    // The mean over the ranks, for the report.
    if (communicator_) communicator_->all_reduce(loss_, Reduction::average, {});
    recorder.loss(loss_);

    recorder.phase("optimizer");
    if (succeeded) {
      recorder.gradients(gradients_of(parameters_));
      adam_step(adam_, parameters_);
    }
    if (communicator_) recorder.collectives(communicator_->calls(), communicator_->bytes());
    if (!succeeded) losses_.assign(losses_.size(), at::Tensor());
    recorder_ = nullptr;
  }

  std::vector<Shard> parameters() override {
    std::vector<Shard> all;
    for (auto& unit : model_.units())
      for (auto& p : unit->parameters())
        if (unit->replicated())
          all.push_back(own_part(p));
        else
          std::ranges::copy(shards_of({&p}), std::back_inserter(all));
    return all;
  }

 private:
  /// The part of a replicated parameter that would be this rank's if it were sharded.
  Shard own_part(const ShardedParameter& parameter) const {
    auto all = parameter.weights(parameter.shard())[0];
    const auto columns = setup_.flat() ? 1 : setup_.hidden, rows = all.values.numel() / columns;
    const auto most = (rows + setup_.ranks - 1) / setup_.ranks,
               first = std::min(rows, setup_.rank * most);
    return {all.name, first * columns,
            all.values.view(-1).narrow(0, first * columns, std::min(most, rows - first) * columns)};
  }

  /// Records the events that the sharded units report.
  void observe(const char* what, ShardedUnit* unit) {
    if (!recorder_) return;
    if (unit) {
      const auto name = reference::unit_name(unit->index());
      recorder_->call(what, name);
      if (std::string_view(what) == "backward")
        recorder_->moment(name + setup_.suffix(microbatch_));
    } else if (std::string_view(what) == "finalised") {
      if (!setup_.sharding.free_regathered) gather_finished_unit();
    } else {
      recorder_->call(what, "step");
      recorder_->moment(what + setup_.suffix(microbatch_));
    }
  }

  // Say, to log the norm of its weights. The last trained one, as its weights are the factors of
  // the gradients before it and the fewest layers stand between it and the loss.
  void gather_finished_unit() {
    for (auto& unit : model_.units() | std::views::reverse) {
      if (unit->frozen()) continue;
      unit->gather_again();
      return;
    }
  }

  /// Of the first numbers of a weight "layers.<number>....".
  double step_of(const std::string& name) const {
    if (name.find("adapter") != std::string::npos) return reference::adapter_step(setup_.hidden);
    return reference::chain_step(setup_.hidden, std::stoll(name.substr(name.find('.') + 1)));
  }

  void zero_gradients(int index) {
    const auto& frozen = setup_.step(index).frozen;
    for (std::size_t i = 0; i < frozen.size(); ++i) {
      auto& unit = *model_.units()[i];
      unit.freeze(frozen[i]);
      if (setup_.mixed) unit.parameters()[0].freeze(true);
    }
    for (auto* p : parameters_) p->gradient.reset();
    for (auto& shared : model_.shared_inputs()) shared.mutable_grad().reset();
    const CategoryScope category(MemoryKind::outputs);
    loss_ = at::zeros({}, at::TensorOptions().dtype(step_.stored).device(at::kCUDA));
  }

  void forward(int index, std::int64_t microbatch) {
    const auto m = static_cast<std::size_t>(microbatch);
    const auto name = "input." + std::to_string(index) + "." + std::to_string(microbatch);
    inputs_[m] = batch(trial_, name, {setup_.rows, setup_.hidden}, step_.rank(), step_.stored)
                     .requires_grad_(setup_.input_gradient);
    losses_[m] = mean_square_error(model_.forward(inputs_[m]), inputs_[m]);
  }

  /// False where it used a freed parameter.
  bool backward(int index, std::int64_t microbatch) {
    const auto m = static_cast<std::size_t>(microbatch);
    microbatch_ = microbatch;
    const auto& synced = setup_.step(index).synced[m];
    for (std::size_t i = 0; i < synced.size(); ++i) model_.units()[i]->set_sync(synced[i]);
    step_.root_sync = trial_["no_sync"] != static_cast<std::int64_t>(NoSync::but_last) ||
                      microbatch + 1 == setup_.microbatches;
    const double share = 1.0 / static_cast<double>(setup_.microbatches);
    loss_.add_(losses_[m].detach(), share);
    const CategoryScope category(MemoryKind::gradients);
    const auto weight = at::full({}, share, losses_[m].options().requires_grad(false));
    bool succeeded = true;
    try {
      torch::autograd::backward({losses_[m]}, {weight});
    } catch (const c10::Error& error) {
      if (!reads_freed_parameter(error)) throw;
      release_last_run(weight);
      recorder_->call("freed parameter used", "step");
      step_.abandon();
      succeeded = false;
    }
    losses_[m].reset();
    return succeeded;
  }

  const Trial& trial_;
  const Setup setup_;
  std::unique_ptr<Communicator> communicator_;
  ShardedStep step_;
  LinearChain model_;
  Adam adam_;
  std::vector<ShardedParameter*> parameters_;
  std::vector<at::Tensor> inputs_, losses_;  // by microbatch
  at::Tensor loss_;                          // their mean
  Recorder* recorder_ = nullptr;
  std::int64_t microbatch_ = 0;
};

}  // namespace

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world) {
  return std::make_unique<Training>(trial, policy, world);
}

}  // namespace tidemark::frozen_reshard
