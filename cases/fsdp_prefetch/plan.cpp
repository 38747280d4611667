// The replay: what the operators of the model and its sharded units take and give back, run through
// the model of the allocator. Nothing here is measured, or read from the program.
#include <utility>

#include "cases/device_facts.h"
#include "cases/fsdp_prefetch/policy.h"
#include "harness/judge/form.h"
#include "reference/memory/sharded_plan.h"

namespace tidemark::fsdp_prefetch {
namespace {

class Plan : reference::ShardedPlan {
 public:
  Plan(const Trial& trial, const Policy& policy, int rank, const reference::DeviceFacts& device)
      : ShardedPlan(shapes(trial), policy.sharding, trial.ranks, rank, trial.schedule != "lagging",
                    device),
        steps_(trial.steps),
        explicit_prefetch_(policy.explicit_prefetch),
        rows_(trial["batch"] / trial.ranks),
        elements_(rows_ * trial["hidden"]) {}

  reference::Predicted run() {
    for (int i = 0; i < steps_; ++i) step();
    return std::move(predicted_);
  }

 private:
  struct Saved {  // of a block, for backward
    Tensor input, wide, active;
  };
  using Statistics = std::array<Tensor, 2>;

  static std::vector<UnitShape> shapes(const Trial& trial) {
    const auto h = trial["hidden"];
    std::vector<UnitShape> all{{{{h, 1}, {h, 1}}}};  // the root first
    all.insert(all.end(), static_cast<std::size_t>(trial["layers"]), {{{h, h}, {h, h}}});
    return all;
  }

  Tensor activation() { return hold(elements_ * options_.gathered); }
  Statistics norm_statistics() {  // mean and 1 / deviation, fp32
    auto mean = hold(rows_ * 4);
    return {std::move(mean), hold(rows_ * 4)};
  }
  Tensor gradient_of(const Part& part) { return hold(part.numel * options_.gathered); }

  void step() {
    phase("zero_grad");
    for (auto& unit : units_) unit.sharded_gradient.reset();
    phase("forward");
    forward();
    phase("backward");
    backward();
    phase("optimizer");
    auto& norms = units_[0].parts;
    std::vector<Part*> parts{&norms[0]};
    for (std::size_t i = 1; i < units_.size(); ++i)
      for (auto& part : units_[i].parts) parts.push_back(&part);
    parts.push_back(&norms[1]);
    adam(parts);
    end();
  }

  void forward() {
    input_ = hold(elements_ * options_.stored);
    if (options_.stored != options_.gathered) cast_input_ = activation();
    pre_forward(0);
    auto x = activation();
    first_statistics_ = norm_statistics();
    for (std::size_t i = 1; i < units_.size(); ++i) {
      pre_forward(i);
      if (explicit_prefetch_ && i + 1 < units_.size()) unshard(i + 1);
      Saved saved{x, activation(), {}};
      multiplied(multiplied_forward_);
      saved.active = activation();
      const auto out = activation();
      post_forward(i);
      x = activation();
      saved_.push_back(std::move(saved));
    }
    last_ = x;
    auto output = activation();
    last_statistics_ = norm_statistics();
    post_forward(0);
    end_forward();
    output_ = std::move(output);
    loss_ = hold(options_.gathered);
  }

  void backward() {
    const auto one = hold(options_.gathered);
    auto dy = activation();
    pre_backward(0);
    auto dx = activation();
    auto& norms = units_[0].parts;
    norms[1].gradient = gradient_of(norms[1]);
    dy.reset();
    last_.reset();
    last_statistics_ = {};
    for (auto i = units_.size() - 1; i > 0; --i) {
      auto& parts = units_[i].parts;
      auto saved = std::move(saved_.back());
      saved_.pop_back();
      pre_backward(i);
      parts[1].gradient = gradient_of(parts[1]);
      multiplied(multiplied_backward_);
      auto dactive = activation();
      saved.active.reset();
      auto dwide = activation();
      dactive.reset();
      saved.wide.reset();
      parts[0].gradient = gradient_of(parts[0]);
      const auto through = activation();  // added to dx in place
      dwide.reset();
      saved.input.reset();
      post_backward(i);
    }
    norms[0].gradient = gradient_of(norms[0]);
    dx.reset();
    cast_input_.reset();
    first_statistics_ = {};
    post_backward(0);
    end_backward();
  }

  const int steps_;
  const bool explicit_prefetch_;
  const std::int64_t rows_, elements_;  // of one rank; of a layer's output
  std::vector<Saved> saved_;
  Statistics first_statistics_, last_statistics_;
  Tensor input_, cast_input_, output_, loss_, last_;
  bool multiplied_forward_ = false, multiplied_backward_ = false;
};

}  // namespace

reference::Predicted plan(const Trial& trial, const Policy& policy, int rank,
                          const reference::DeviceFacts& device) {
  return Plan(trial, policy, rank, device).run();
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank) {
  if (variant.role == Role::control) return {};
  const Policy policy = policy_of(trial, variant.name);
  // With a clock, which recorded blocks are free again when memory is asked for decides how large
  // the blocks are that it gets.
  const bool clocked = trial.schedule != "instant" && trial.schedule != "lagging";
  if (policy.sharding.records() && trial.ranks > 1 && clocked) return {};
  const auto predicted = plan(trial, policy, rank, current_device_facts());
  std::vector<Expectation> all;
  for (const Statistic statistic : kStatistics)
    for (const char* phase : {"forward", "backward", "optimizer"})
      all.push_back(replayed(statistic, phase, false,
                             predicted.phases.at(phase)[static_cast<std::size_t>(statistic)].peak));
  return all;
}

}  // namespace tidemark::fsdp_prefetch
