// The replay: what the operators of the model and its sharded units take and give back, run through
// the model of the allocator. Nothing here is measured, or read from the program.
#include <utility>

#include "cases/device_facts.h"
#include "cases/fsdp_prefetch/policy.h"
#include "cases/kept.h"
#include "harness/judge/form.h"
#include "reference/memory/multi_mlp_plan.h"
#include "reference/memory/sharded_plan.h"

namespace tidemark::fsdp_prefetch {
namespace {

class Plan : reference::MultiMlpPlan<reference::ShardedPlan> {
 public:
  Plan(const Trial& trial, const Policy& policy, int rank)
      : MultiMlpPlan({trial["layers"], trial["hidden"], trial["batch"] / trial.ranks,
                      policy.sharding.gathered},
                     shapes(trial), policy.sharding, trial.ranks, rank, trial.schedule != "lagging",
                     current_device_facts()),
        steps_(trial.steps),
        explicit_prefetch_(policy.explicit_prefetch) {}

  reference::Predicted run() {
    for (int i = 0; i < steps_; ++i) step();
    return std::move(predicted_);
  }

 private:
  static std::vector<UnitShape> shapes(const Trial& trial) {
    const auto h = trial["hidden"];
    std::vector<UnitShape> all{UnitShape{{{h, 1}, {h, 1}}}};  // the root first
    all.insert(all.end(), static_cast<std::size_t>(trial["layers"]), UnitShape{{{h, h}, {h, h}}});
    return all;
  }

  void step() {
    begin("zero_grad");
    for (auto& unit : units_) unit.sharded_gradient.reset();
    begin("forward");
    input_ = hold(sizes_.rows * sizes_.hidden * options_.stored);
    if (options_.stored != options_.gathered) cast_input_ = activation();
    forward();
    begin("backward");
    backward();
    begin("optimizer");
    auto& norms = units_[0].parts;
    std::vector<Part*> parts{&norms[0]};
    for (std::size_t i = 1; i < units_.size(); ++i)
      for (auto& part : units_[i].parts) parts.push_back(&part);
    parts.push_back(&norms[1]);
    adam(parts);
    end();
  }

  void before_forward(std::size_t unit) override {
    pre_forward(unit);
    if (explicit_prefetch_ && unit > 0 && unit + 1 < units_.size()) unshard(unit + 1);
  }
  void after_forward(std::size_t unit) override {
    post_forward(unit);
    if (unit == 0) end_forward();
  }
  void before_backward(std::size_t unit) override { pre_backward(unit); }
  void computed(std::size_t unit, std::size_t which, Tensor gradient) override {
    units_[unit].parts[which].gradient = std::move(gradient);
  }
  void after_backward(std::size_t unit) override {
    if (unit == 0) cast_input_.reset();
    post_backward(unit);
    if (unit == 0) end_backward();
  }

  const int steps_;
  const bool explicit_prefetch_;
  Tensor input_, cast_input_;
};

}  // namespace

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank) {
  if (variant.role == Role::control) return {};
  const Policy policy = policy_of(trial, variant.name);
  // With a clock, which recorded blocks are free again when memory is asked for decides how large
  // the blocks are that it gets.
  if (policy.sharding.records() && trial.ranks > 1 && trial.has_clock()) return {};
  static Kept<reference::Predicted> kept;
  const auto& predicted =
      kept.of(trial, variant.name, rank, [&] { return Plan(trial, policy, rank).run(); });
  std::vector<Expectation> all;
  for (const char* phase : {"forward", "backward", "optimizer"})
    append(all, replayed(phase, predicted.phases.at(phase), /*ends=*/false));
  return all;
}

}  // namespace tidemark::fsdp_prefetch
