// The replay: what the buckets and Adam take and give back around the operators, one by one, run
// through the model of the allocator. Nothing here is measured, or read from the program.
#include <algorithm>
#include <numeric>

#include "cases/ddp_bucket_view/policy.h"
#include "cases/device_facts.h"
#include "cases/kept.h"
#include "harness/judge/form.h"
#include "reference/memory/multi_mlp_plan.h"

namespace tidemark::ddp_bucket_view {
namespace {

class Plan : reference::MultiMlpPlan<reference::Replay> {
  using Tensors = std::vector<Tensor>;

 public:
  Plan(const Trial& trial, const Policy& policy)
      : MultiMlpPlan({trial["layers"], trial["hidden"], trial["rows"], 4}, current_device_facts(),
                     trial.ranks, trial.schedule != "lagging"),
        trial_(trial),
        policy_(policy),
        backwards_(gradient_bytes(trial)) {
    parameters_ = of_each_parameter();
    const auto whole = std::accumulate(backwards_.begin(), backwards_.end(), Bytes{0});
    buckets_ = tensors_of(policy.rebuilds ? std::vector{whole} : bucket_bytes(trial));
  }

  reference::Predicted run() {
    for (int i = 0; i < trial_.steps; ++i) {
      begin("zero_grad");
      gradients_.clear();
      begin("forward");
      input_ = activation();
      if (i == 1 && policy_.rebuilds) {
        buckets_.clear();
        buckets_ = tensors_of(bucket_bytes(trial_));
      }
      forward();
      begin("backward");
      backward();
      begin("optimizer");
      if (i == 0)
        for (std::size_t k = backwards_.size(); k-- > 0;)
          for (int moment = 0; moment < 2; ++moment) moments_.push_back(hold(backwards_[k]));
      of_each_parameter();  // the roots
      end();
    }
    return predicted_;
  }

 private:
  Tensors tensors_of(const std::vector<Bytes>& each) {
    Tensors all;
    for (const Bytes bytes : each) all.push_back(hold(bytes));
    return all;
  }
  Tensors of_each_parameter() { return tensors_of({backwards_.rbegin(), backwards_.rend()}); }

  void computed(std::size_t, std::size_t, Tensor gradient) override {
    if (policy_.gradients == Gradients::separate) gradients_.push_back(std::move(gradient));
  }

  const Trial& trial_;
  const Policy policy_;
  const std::vector<Bytes> backwards_;
  Tensors parameters_, buckets_, gradients_, moments_;
  Tensor input_;
};

}  // namespace

std::vector<Bytes> gradient_bytes(const Trial& trial) {
  const Bytes row = 4 * trial["hidden"];
  std::vector<Bytes> all(2 * static_cast<std::size_t>(trial["layers"]) + 2, row * trial["hidden"]);
  all.front() = all.back() = row;
  return all;
}

std::vector<Bytes> bucket_bytes(const Trial& trial) {
  std::vector<Bytes> all;
  Bytes limit = 0;
  for (const Bytes bytes : gradient_bytes(trial)) {
    if (all.empty() || all.back() >= limit) {
      limit = all.empty() ? std::min(trial["bucket_bytes"], Bytes{1} << 20) : trial["bucket_bytes"];
      all.push_back(0);
    }
    all.back() += bytes;
  }
  return all;
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int /*rank*/) {
  if (variant.role == Role::control) return {};
  static Kept<reference::Predicted> kept;
  const auto& predicted = kept.of(trial, variant.name, /*rank=*/0,
                                  [&] { return Plan(trial, variants()[variant.name]).run(); });
  std::vector<Expectation> all;
  for (const char* phase : {"forward", "backward", "optimizer"})
    append(all, replayed(phase, predicted.phases.at(phase), /*ends=*/true));
  return all;
}

}  // namespace tidemark::ddp_bucket_view
