#include "harness/testing/toy.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

namespace tidemark {

Scenario toy_scenario();  // cases/toy/scenario.cpp

namespace testing {
namespace {

std::unique_ptr<at::ObserverContext> nothing(const at::RecordFunction&) { return nullptr; }
/// Makes a product of one row, which the gradient of w is, larger by one part in a million.
void enlarge(const at::RecordFunction& function, at::ObserverContext*) {
  const std::string name = function.name();
  if (name != "aten::mm") return;
  const at::NoGradGuard no_grad;
  at::Tensor out = function.outputs().front().toTensor();
  if (out.numel() > 1 && out.dim() == 2 && out.size(0) == 1) out.mul_(1.000001);
}

class Broken final : public Program {
 public:
  Broken(std::unique_ptr<Program> whole, const ToyFaults& faults)
      : whole_(std::move(whole)), faults_(faults) {}

  void step(int index, Recorder& recorder) override {
    if (faults_.wrong_gradient) {
      const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(nothing, enlarge)
                                                    .needsOutputs(true)
                                                    .scopes({at::RecordScope::FUNCTION}));
      whole_->step(index, recorder);
      at::removeCallback(handle);
    } else {
      whole_->step(index, recorder);
    }
    if (faults_.leaks) leaked_.push_back(at::empty_like(whole_->parameters().front().values));
  }
  std::vector<Shard> parameters() override { return whole_->parameters(); }

 private:
  std::unique_ptr<Program> whole_;
  const ToyFaults faults_;
  std::vector<at::Tensor> leaked_;
};

const Variant& with_role(const Scenario& scenario, Role role) {
  return *std::ranges::find(scenario.variants, role, &Variant::role);
}

}  // namespace

Scenario toy_scenario(const ToyFaults& faults) {
  Scenario scenario = tidemark::toy_scenario();
  scenario.make = [faults, whole = scenario](const Trial& trial, const Variant& variant,
                                             World& world) -> std::unique_ptr<Program> {
    const Role role = variant.role == Role::fixed && faults.fix_does_nothing     ? Role::baseline
                      : variant.role == Role::control && faults.control_is_right ? Role::fixed
                                                                                 : variant.role;
    auto program = whole.make(trial, with_role(whole, role), world);
    if (variant.role != Role::fixed) return program;
    return std::make_unique<Broken>(std::move(program), faults);
  };
  if (faults.slack > 0)
    scenario.forms = [faults, right = scenario.forms](const Trial& trial, const Variant& variant,
                                                      int rank) {
      auto all = right(trial, variant, rank);
      for (Expectation& one : all)
        if (one.moment.empty())
          one.slack = faults.slack, one.why = "a test's", one.unit = 4 * trial["n"];
      return all;
    };
  return scenario;
}

Trial toy_trial(std::int64_t n, Mode mode, const std::string& schedule) {
  return {"toy", "smoke", schedule, {{"n", n}, {"rows", 4}}, mode, 1, 3, 0};
}

}  // namespace testing
}  // namespace tidemark
