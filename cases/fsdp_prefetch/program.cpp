#include "cases/fsdp_prefetch/program.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "cases/numbers.h"
#include "harness/measure/recorder.h"
#include "harness/ranks/world.h"

namespace tidemark::fsdp_prefetch {
Training::Training(const Trial& trial, const Layout& layout, const World& world)
    : trial_(trial),
      numbers_(trial.mode == Mode::math),
      communicator_(world.size() > 1 ? std::make_unique<Communicator>(world, layout.reference)
                                     : nullptr),
      step_(communicator_.get(), options_of(layout, trial)),
      model_(step_, trial["layers"], trial["hidden"], layout.explicit_prefetch),
      parameters_(model_.parameters()) {
  if (!numbers_) return;
  for (auto* p : parameters_) fill(trial.seed, p->name(), p->shard_offset(), p->shard());
}

Training::~Training() = default;

at::Tensor Training::input(int index) {
  const CategoryScope category("inputs");
  const auto rows = trial_["batch"] / trial_.ranks, hidden = trial_["hidden"];
  auto x =
      at::empty({rows, hidden}, at::TensorOptions().dtype(step_.options.stored).device(at::kCUDA));
  if (numbers_)
    fill(trial_.seed, "input." + std::to_string(index), step_.rank() * rows * hidden, x);
  return x;
}

void Training::step(int index, Recorder& recorder) {
  recorder.phase("zero_grad");
  for (auto* p : parameters_) p->gradient.reset();

  recorder.phase("forward");
  input_ = input(index);
  output_ = model_.forward(
      step_.options.gathered == step_.options.stored ? input_ : input_.to(step_.options.gathered));
  {
    const CategoryScope category("outputs");
    loss_ = output_.mean();
  }

  recorder.phase("backward");
  {
    const CategoryScope category("gradients");
    torch::autograd::backward({loss_}, {});
  }
  // The mean over the ranks, for the report; in place, and nothing reads this rank's own any more.
  if (communicator_) communicator_->all_reduce(loss_.detach(), Reduction::average, {});
  recorder.loss(loss_);
  recorder.gradients(gradients_of(parameters_));

  recorder.phase("optimizer");
  adam_step(adam_, parameters_);
  if (communicator_) recorder.record.counters.collectives = communicator_->calls();
}

std::vector<Shard> Training::parameters() { return shards_of(parameters_); }

}  // namespace tidemark::fsdp_prefetch
