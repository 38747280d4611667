// The replay: what the operators, the buckets and Adam take and give back, one by one, run through
// the model of the allocator. Nothing here is measured, or read from the program.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "cases/ddp_bucket_view/policy.h"
#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::ddp_bucket_view {
namespace {

class Plan : reference::Replay {
  using Tensor = std::shared_ptr<reference::Allocator::Block>;
  using Tensors = std::vector<Tensor>;

 public:
  Plan(const Trial& trial, const Policy& policy)
      : Replay(current_device_facts(), trial.ranks, trial.schedule != "lagging"),
        trial_(trial),
        policy_(policy),
        backwards_(gradient_bytes(trial)),
        gradients_(backwards_.size()),
        activation_(4 * trial["rows"] * trial["hidden"]) {
    parameters_ = of_each_parameter();
    const auto whole = std::accumulate(backwards_.begin(), backwards_.end(), Bytes{0});
    buckets_ = held(policy.rebuilds ? std::vector{whole} : bucket_bytes(trial));
  }

  reference::Predicted run() {
    for (int i = 0; i < trial_.steps; ++i) {
      begin("zero_grad");
      std::ranges::for_each(gradients_, [](Tensor& each) { each.reset(); });
      begin("forward");
      input_ = hold(activation_);
      if (i == 1 && policy_.rebuilds) {
        buckets_.clear();
        buckets_ = held(bucket_bytes(trial_));
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
  Tensor hold(Bytes bytes) {
    return {take(bytes), [this](auto* block) { memory_.free(block); }};
  }
  Tensors held(const std::vector<Bytes>& each) {
    Tensors all;
    for (const Bytes bytes : each) all.push_back(hold(bytes));
    return all;
  }
  Tensors of_each_parameter() { return held({backwards_.rbegin(), backwards_.rend()}); }
  Tensor activation() { return hold(activation_); }
  Tensors statistics() { return held({4 * trial_["rows"], 4 * trial_["rows"]}); }
  /// cuBLAS takes its workspace at the first product of a thread.
  void multiplied(Tensor& workspace) {
    if (!workspace) workspace = hold(device_.workspace_bytes);
  }
  void accumulate(std::size_t k, Tensor gradient) {
    if (policy_.gradients == Gradients::separate) gradients_[k] = std::move(gradient);
  }

  void forward() {
    auto x = activation();
    first_ = statistics();
    for (std::int64_t i = 0; i < trial_["layers"]; ++i) {
      saved_.push_back({x, activation()});
      multiplied(workspaces_[0]);
      saved_.back().push_back(activation());
      const auto out = activation();
      x = activation();
    }
    last_ = {x};
    auto output = activation();
    std::ranges::move(statistics(), std::back_inserter(last_));
    output_ = std::move(output);
    loss_ = hold(4);
  }

  void backward() {
    std::size_t k = 0;
    const auto one = hold(4);
    auto dy = activation();
    const auto dx = activation();
    auto gradient = hold(backwards_[k]);
    dy.reset();
    last_.clear();
    accumulate(k++, std::move(gradient));
    for (; !saved_.empty(); saved_.pop_back()) {
      auto& saved = saved_.back();  // input, wide, active
      gradient = hold(backwards_[k]);
      multiplied(workspaces_[1]);
      auto dactive = activation();
      saved[2].reset();
      accumulate(k++, std::move(gradient));
      auto dwide = activation();
      dactive.reset();
      saved[1].reset();
      gradient = hold(backwards_[k]);
      const auto through = activation();  // added to dx in place
      dwide.reset();
      saved[0].reset();
      accumulate(k++, std::move(gradient));
    }
    accumulate(k, hold(backwards_[k]));
    first_.clear();
  }

  const Trial& trial_;
  const Policy policy_;
  const std::vector<Bytes> backwards_;
  Tensors parameters_, buckets_, gradients_, moments_, first_, last_;
  std::vector<Tensors> saved_;  // of a block, for backward
  const Bytes activation_;
  Tensor workspaces_[2], input_, output_, loss_;
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
  const auto predicted = Plan(trial, variants()[variant.name]).run();
  std::vector<Expectation> all;
  for (const Statistic statistic : kStatistics)
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      const auto& extent = predicted.phases.at(phase)[static_cast<std::size_t>(statistic)];
      all.push_back(replayed(statistic, phase, false, extent.peak));
      all.push_back(replayed(statistic, phase, true, extent.end));
    }
  return all;
}

}  // namespace tidemark::ddp_bucket_view
