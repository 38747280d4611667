#include "cases/fsdp_prefetch/program.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "harness/recorder.h"
#include "harness/world.h"
#include "reference/deterministic.h"

namespace tidemark::fsdp_prefetch {
namespace {

/// A flat range of a named tensor's values, on the CPU, pinned.
at::Tensor values_of(const Trial& trial, const std::string& name, std::int64_t offset,
                     std::int64_t numel, at::ScalarType type) {
  auto host = at::empty({numel}, at::TensorOptions().dtype(at::kDouble));
  reference::fill(trial.seed, name, offset,
                  {host.mutable_data_ptr<double>(), static_cast<std::size_t>(numel)});
  return host.to(type).pin_memory();
}

}  // namespace

Training::Training(const Trial& trial, const Layout& layout, const World& world)
    : trial_(trial),
      numbers_(trial.mode == Mode::math),
      communicator_(world.size() > 1 ? std::make_unique<Communicator>(world, layout.reference)
                                     : nullptr),
      step_(communicator_.get(), options_of(layout, trial)),
      model_(step_, trial["layers"], trial["hidden"], layout.explicit_prefetch),
      parameters_(model_.parameters()) {
  if (!numbers_) return;
  for (auto* p : parameters_) {
    const auto shard = p->shard();
    if (shard.numel() == 0) continue;
    const at::NoGradGuard no_grad;
    shard.copy_(values_of(trial, p->name(), p->shard_offset(), shard.numel(), shard.scalar_type())
                    .view(shard.sizes()));
  }
}

Training::~Training() = default;

at::Tensor Training::input(int index) {
  const CategoryScope category("inputs");
  const auto rows = trial_["batch"] / trial_.ranks, hidden = trial_["hidden"];
  auto x =
      at::empty({rows, hidden}, at::TensorOptions().dtype(step_.options.stored).device(at::kCUDA));
  if (numbers_) {
    const auto offset = step_.rank() * rows * hidden;
    x.copy_(values_of(trial_, "input." + std::to_string(index), offset, x.numel(), x.scalar_type())
                .view(x.sizes()),
            /*non_blocking=*/true);
  }
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
  std::vector<Shard> gradients;
  for (auto* p : parameters_) gradients.push_back({p->name(), p->shard_offset(), p->gradient});
  recorder.gradients(gradients);

  recorder.phase("optimizer");
  std::vector<at::Tensor> shards, values;
  for (auto* p : parameters_) {
    shards.push_back(p->shard());
    values.push_back(p->gradient);
  }
  adam_.step(shards, values);
  if (communicator_) recorder.record.counters.collectives = communicator_->calls();
}

std::vector<Shard> Training::parameters() {
  std::vector<Shard> shards;
  for (auto* p : parameters_) shards.push_back({p->name(), p->shard_offset(), p->shard()});
  return shards;
}

}  // namespace tidemark::fsdp_prefetch
