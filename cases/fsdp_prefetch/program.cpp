// The training step: zero gradients, forward, backward, Adam; the same code for every variant. The
// model is that of reference/multi_mlp.h in sharded units, one a block and the root, which holds
// the norms.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "cases/fsdp_prefetch/policy.h"
#include "cases/numbers.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/sharded_unit.h"
#include "harness/ranks/world.h"

namespace tidemark::fsdp_prefetch {
namespace {

class MultiMlp {
 public:
  MultiMlp(ShardedStep& step, std::int64_t layers, std::int64_t hidden, bool explicit_prefetch)
      : step_(step),
        hidden_(hidden),
        root_(step, {{"pre_norm.weight", {hidden}}, {"post_norm.weight", {hidden}}}) {
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto name = "mlps." + std::to_string(i);
      blocks_.push_back(std::make_unique<ShardedUnit>(
          step, std::vector<ParameterShape>{{name + ".fc1.weight", {hidden, hidden}},
                                            {name + ".fc2.weight", {hidden, hidden}}}));
    }
    if (!explicit_prefetch) return;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      std::vector<ShardedUnit*> next, before;
      if (i + 1 < blocks_.size()) next = {blocks_[i + 1].get()};
      if (i > 0) before = {blocks_[i - 1].get()};
      blocks_[i]->prefetch(next, before);
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    step_.begin_forward();
    auto x = at::layer_norm(root_.pre_forward(input), {hidden_}, root_[0]);
    for (auto& block : blocks_) {
      const auto hooked = block->pre_forward(x);
      const auto wide = at::gelu(at::linear(hooked, (*block)[0]));
      x = x + block->post_forward(at::linear(wide, (*block)[1]));
    }
    const CategoryScope category(MemoryKind::outputs);
    x = root_.post_forward(at::layer_norm(x, {hidden_}, root_[1]));
    step_.end_forward();
    return x;
  }

  /// In the model's order.
  std::vector<ShardedParameter*> parameters() {
    std::vector<ShardedParameter*> all{&root_.parameters()[0]};
    for (auto& block : blocks_)
      for (auto& p : block->parameters()) all.push_back(&p);
    all.push_back(&root_.parameters()[1]);
    return all;
  }

 private:
  ShardedStep& step_;
  std::int64_t hidden_;
  ShardedUnit root_;
  std::vector<std::unique_ptr<ShardedUnit>> blocks_;
};

class Training final : public Program {
 public:
  Training(const Trial& trial, const Policy& policy, const World& world)
      : trial_(trial),
        communicator_(world.size() > 1
                          ? std::make_unique<Communicator>(world, policy.sharding.reference)
                          : nullptr),
        step_(communicator_.get(), policy.sharding),
        model_(step_, trial["layers"], trial["hidden"], policy.explicit_prefetch),
        parameters_(model_.parameters()) {
    if (trial.mode == Mode::shapes) return;
    for (const auto& weight : shards_of(parameters_))
      fill(trial.seed, weight.name, weight.offset, weight.values,
           multi_mlp_step(trial, weight.name));
  }

  void step(int index, Recorder& recorder) override {
    recorder.phase("zero_grad");
    for (auto* p : parameters_) p->gradient.reset();

    recorder.phase("forward");
    input_ = batch(trial_, "input." + std::to_string(index),
                   {trial_["batch"] / trial_.ranks, trial_["hidden"]}, step_.rank(), step_.stored);
    {
      const at::Tensor x = step_.gathered == step_.stored ? input_ : input_.to(step_.gathered);
      output_ = model_.forward(x);
      loss_.reset();  // of the step before, which the new one would stand beside
      const CategoryScope category(MemoryKind::outputs);
      loss_ = mean_square_error(output_, x);
    }

    recorder.phase("backward");
    {
      const CategoryScope category(MemoryKind::gradients);
      torch::autograd::backward({loss_}, {});
    }
    // The mean over the ranks, for the report; in place, and nothing reads this rank's own any
    // more.
    if (communicator_) communicator_->all_reduce(loss_.detach(), Reduction::average, {});
    recorder.loss(loss_);
    recorder.gradients(gradients_of(parameters_));

    recorder.phase("optimizer");
    adam_step(adam_, parameters_);
    if (communicator_) recorder.collectives(communicator_->calls(), communicator_->bytes());
  }

  std::vector<Shard> parameters() override { return shards_of(parameters_); }

 private:
  const Trial& trial_;
  std::unique_ptr<Communicator> communicator_;
  ShardedStep step_;
  MultiMlp model_;
  Adam adam_;
  std::vector<ShardedParameter*> parameters_;
  // As in a training script, where they are variables of the loop: they live until they are
  // assigned again.
  at::Tensor input_, output_, loss_;
};

}  // namespace

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world) {
  return std::make_unique<Training>(trial, policy, world);
}

}  // namespace tidemark::fsdp_prefetch
