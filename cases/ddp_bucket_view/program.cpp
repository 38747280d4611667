// The training step: zero gradients, forward, backward with an all-reduce of every bucket as it
// fills, Adam. The model is that of reference/multi_mlp.h, whole on every rank.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "cases/ddp_bucket_view/policy.h"
#include "cases/numbers.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/adam.h"
#include "harness/parallel/communicator.h"

namespace tidemark::ddp_bucket_view {
namespace {

using Order = std::vector<std::size_t>;  // of parameters, by their places in the model

class Training final : public Program {
 public:
  Training(const Trial& trial, const Policy& policy, const World& world)
      : trial_(trial), policy_(policy), communicator_(world) {
    const auto hidden = trial["hidden"];
    model_.add(trial, "pre_norm.weight", {hidden});
    for (std::int64_t i = 0; i < trial["layers"]; ++i)
      for (const char* layer : {"fc1", "fc2"}) {
        const auto name = "mlps." + std::to_string(i) + "." + layer + ".weight";
        model_.add(trial, name, {hidden, hidden}, at::kFloat, multi_mlp_step(trial, name));
      }
    model_.add(trial, "post_norm.weight", {hidden});
    bucket_of_.resize(parameters_.size());
    views_.resize(parameters_.size());

    Order backwards(parameters_.size());
    std::iota(backwards.rbegin(), backwards.rend(), std::size_t{0});
    make_buckets(policy_.rebuilds ? std::vector<Order>{backwards} : filled(backwards));
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[k]));
      accumulators_.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, k](const auto& outputs, const auto&) {
            ready(k);
            return outputs;
          }));
      if (policy_.gradients == Gradients::accumulated || policy_.gradients == Gradients::unwatched)
        parameters_[k].mutable_grad() = views_[k];
    }
  }

  void step(int index, Recorder& recorder) override {
    recorder.phase("zero_grad");
    if (index > 0) zero_gradients();

    recorder.phase("forward");
    input_ = batch(trial_, "input." + std::to_string(index), {trial_["rows"], trial_["hidden"]},
                   communicator_.rank(), at::kFloat);
    if (index == 1 && policy_.rebuilds) make_buckets(filled(computed_));
    computed_.clear();
    output_ = forward(input_);
    {
      loss_.reset();  // of the step before, which the new one would stand beside
      const CategoryScope category(MemoryKind::outputs);
      loss_ = mean_square_error(output_, input_);
    }

    recorder.phase("backward");
    {
      const CategoryScope category(MemoryKind::gradients);
      torch::autograd::backward({loss_}, {});
    }
    finish_reduction();
    // The mean over the ranks, for the report.
    communicator_.all_reduce(loss_.detach(), Reduction::average, {});
    recorder.loss(loss_);
    recorder.gradients(model_.named(model_.gradients()));

    recorder.phase("optimizer");
    adam_.step(parameters_, model_.gradients());
    recorder.collectives(communicator_.calls(), communicator_.bytes());
  }

  std::vector<Shard> parameters() override { return model_.named(parameters_); }

 private:
  struct Bucket {
    Order members;
    at::Tensor flat;
    std::size_t missing = 0;  // gradients that this backward has yet to compute
  };

  std::vector<Order> filled(const Order& order) const {
    const auto most = static_cast<std::size_t>(trial_["bucket_bytes"]);
    std::vector<Order> all(1);
    std::size_t bytes = 0;
    for (const auto k : order) {
      if (bytes >= (all.size() == 1 ? std::min<std::size_t>(most, 1 << 20) : most)) {
        all.emplace_back();
        bytes = 0;
      }
      all.back().push_back(k);
      bytes += parameters_[k].nbytes();
    }
    return all;
  }

  void make_buckets(const std::vector<Order>& contents) {
    const at::NoGradGuard no_grad;
    const CategoryScope category(MemoryKind::persistent_buffers);
    buckets_.clear();
    views_.assign(parameters_.size(), {});
    for (const auto& members : contents) {
      std::int64_t numel = 0;
      for (const auto k : members) numel += parameters_[k].numel();
      buckets_.push_back(
          {members, at::zeros({numel}, parameters_.front().options()), members.size()});
      std::int64_t offset = 0;
      for (const auto k : members) {
        const auto& p = parameters_[k];
        views_[k] = buckets_.back().flat.narrow(0, offset, p.numel()).view(p.sizes());
        bucket_of_[k] = buckets_.size() - 1;
        offset += p.numel();
      }
    }
  }

  void zero_gradients() {
    const at::NoGradGuard no_grad;
    for (auto& p : parameters_)
      if (policy_.gradients == Gradients::accumulated)
        p.mutable_grad().zero_();
      else
        p.mutable_grad().reset();
  }

  at::Tensor forward(const at::Tensor& input) const {
    const auto hidden = trial_["hidden"];
    auto x = at::layer_norm(input, {hidden}, parameters_.front());
    for (std::size_t i = 1; i + 1 < parameters_.size(); i += 2)
      x = x + at::linear(at::gelu(at::linear(x, parameters_[i])), parameters_[i + 1]);
    const CategoryScope category(MemoryKind::outputs);
    return at::layer_norm(x, {hidden}, parameters_.back());
  }

  /// In autograd's thread, once the gradient of parameter `k` is there.
  void ready(std::size_t k) {
    const at::NoGradGuard no_grad;
    auto& gradient = parameters_[k].mutable_grad();
    if (policy_.gradients == Gradients::separate || policy_.gradients == Gradients::copied)
      views_[k].copy_(gradient);
    if (policy_.gradients == Gradients::copied) gradient = views_[k];
    computed_.push_back(k);
    auto& bucket = buckets_[bucket_of_[k]];
    if (--bucket.missing > 0) return;
    bucket.missing = bucket.members.size();
    works_.push_back(communicator_.all_reduce(bucket.flat, Reduction::average, {.async = true}));
  }

  void finish_reduction() {
    const at::NoGradGuard no_grad;
    if (policy_.keeps_handles) {
      c10::cuda::CUDAEvent end;
      end.record(communicator_.stream());
      end.block(c10::cuda::getCurrentCUDAStream());
    } else {
      for (auto& work : works_) work->wait();
      works_.clear();
    }
    if (policy_.gradients != Gradients::separate) return;
    for (std::size_t k = 0; k < parameters_.size(); ++k)
      parameters_[k].mutable_grad().copy_(views_[k]);
  }

  const Trial& trial_;
  const Policy policy_;
  Communicator communicator_;
  Parameters model_;
  std::vector<at::Tensor>& parameters_ = model_.values;
  std::vector<at::Tensor> views_;  // of the buckets, by parameter
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::vector<Bucket> buckets_;
  Order bucket_of_, computed_;  // computed_: in this backward, or the one before
  std::vector<std::unique_ptr<Work>> works_;
  Adam adam_;
  // As in a training script, where they live until they are assigned again.
  at::Tensor input_, output_, loss_;
};

}  // namespace

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world) {
  return std::make_unique<Training>(trial, policy, world);
}

}  // namespace tidemark::ddp_bucket_view
