#include "cases/tp_buffer_reuse/program.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "cases/numbers.h"
#include "harness/measure/recorder.h"
#include "harness/ranks/world.h"

namespace tidemark::tp_buffer_reuse {
Training::Training(const Trial& trial, const Layout& layout, const World& world)
    : trial_(trial),
      dimensions_(dimensions(trial)),
      numbers_(trial.mode == Mode::math),
      communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr),
      group_(communicator_.get(), layout.gather),
      stage_(dimensions_, group_, layout.fused_glu) {
  group_.warm_up(dimensions_.rows(), dimensions_.hidden,
                 dimensions_.bf16 ? at::kBFloat16 : at::kFloat);
  {
    const CategoryScope category("outputs");
    loss_ = at::empty({1}, at::TensorOptions().dtype(at::kFloat).device(at::kCUDA));
  }
  if (!numbers_) return;
  for (auto& weight : stage_.weights()) {
    for (const auto& piece : weight.pieces) {
      fill(trial.seed, piece.name, piece.offset,
           weight.value.detach().narrow(0, piece.begin, piece.rows));
    }
  }
}

Training::~Training() = default;

void Training::all_reduce(const at::Tensor& tensor) {
  if (communicator_) communicator_->all_reduce(tensor, Reduction::sum, {});
}

Training::Microbatch Training::forward(int step, std::int64_t microbatch) {
  const auto& d = dimensions_;
  at::Tensor x;
  {
    const CategoryScope category("inputs");
    x = at::empty({d.shard_rows(), d.hidden}, stage_.weights()[0].value.options());
  }
  if (numbers_) {
    fill(trial_.seed, "input." + std::to_string(step) + "." + std::to_string(microbatch),
         group_.rank() * x.numel(), x);
  }
  x.set_requires_grad(true);  // from the stage before, which waits for its gradient
  auto y = stage_.forward(x);
  const at::NoGradGuard no_grad;
  const auto flat = y.view(-1);
  loss_.add_(at::dot(flat, flat), 1.0 / static_cast<double>(d.in_flight * d.rows() * d.hidden));
  return {x, y};
}

void Training::backward(const Microbatch& microbatch) {
  const auto& d = dimensions_;
  at::Tensor gradient;
  {
    const at::NoGradGuard no_grad;
    gradient = microbatch.output * (2.0 / static_cast<double>(d.in_flight * d.rows() * d.hidden));
  }
  torch::autograd::backward({microbatch.output}, {gradient});
}

void Training::step(int index, Recorder& recorder) {
  recorder.phase("forward");
  loss_.zero_();
  std::vector<Microbatch> in_flight;
  for (std::int64_t i = 0; i < dimensions_.in_flight; ++i) in_flight.push_back(forward(index, i));

  recorder.phase("backward");
  {
    const CategoryScope category("gradients");
    for (auto& microbatch : in_flight) {
      backward(microbatch);
      microbatch = {};
    }
  }
  for (auto& weight : stage_.weights()) {
    if (weight.replicated) all_reduce(weight.value.grad());
  }
  all_reduce(loss_);
  recorder.loss(loss_);
  recorder.gradients(shards(true));

  recorder.phase("optimizer");
  std::vector<at::Tensor> values, gradients;
  for (auto& weight : stage_.weights()) {
    values.push_back(weight.value);
    gradients.push_back(weight.value.grad());
  }
  adam_.step(values, gradients);

  recorder.phase("zero_grad");
  gradients.clear();
  for (auto& weight : stage_.weights()) weight.value.mutable_grad().reset();
  if (communicator_) recorder.record.counters.collectives = communicator_->calls();
}

std::vector<Shard> Training::shards(bool gradients) {
  std::vector<Shard> all;
  for (auto& weight : stage_.weights()) {
    const auto tensor = gradients ? weight.value.grad() : weight.value.detach();
    for (const auto& piece : weight.pieces) {
      all.push_back({piece.name, piece.offset, tensor.narrow(0, piece.begin, piece.rows)});
    }
  }
  return all;
}

std::vector<Shard> Training::parameters() { return shards(false); }

}  // namespace tidemark::tp_buffer_reuse
