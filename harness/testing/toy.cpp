#include "harness/testing/toy.h"

#include <ATen/ATen.h>

#include "harness/judge/counts.h"
#include "harness/measure/recorder.h"

namespace tidemark::testing {
namespace {

class Toy final : public Program {
 public:
  Toy(const Trial& trial, const Variant& variant)
      : n_(trial["n"]), keeps_(variant.name == "keep" || variant.name == "keep_too") {
    CategoryScope scope(MemoryKind::parameters);
    w_ = at::ones({n_}, at::TensorOptions().device(at::kCUDA));
  }

  void step(int index, Recorder& recorder) override {
    at::NoGradGuard no_grad;
    recorder.phase("forward");
    at::Tensor x = at::full({n_}, 0.5 + index, w_.options());
    at::Tensor scratch = at::mul(w_, x);
    at::Tensor loss = scratch.sum();
    if (!keeps_) {
      scratch.reset();
      recorder.call("drop", "scratch");
    }
    recorder.moment("after forward");
    recorder.phase("backward");
    at::Tensor gradient = x.clone();
    if (faults.wrong_gradient) gradient.mul_(1.000001);  // for tests
    recorder.gradients({{"w", 0, gradient}});
    w_.sub_(gradient, 0.125);
    recorder.loss(loss);
    if (faults.leaks) leaked.push_back(at::empty({n_}, w_.options()));  // for tests
  }

  std::vector<Shard> parameters() override { return {{"w", 0, w_}}; }
  void keep(bool keeps) { keeps_ = keeps; }  // for tests
  ToyFaults faults = {};                     // for tests
  std::vector<at::Tensor> leaked;            // for tests

 private:
  std::int64_t n_;
  bool keeps_;
  at::Tensor w_;
};

// Alive at the peaks, in units of B = block(4n): w, x, scratch and the loss (forward), of which the
// fix has dropped the scratch when the gradient (backward) appears. The sum's own temporaries stay
// below for n up to 2^15.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant) {
  const std::map<std::string, double> values{{"n", static_cast<double>(trial["n"])}};
  const bool keeps = variant.name == "keep";
  std::vector<Expectation> all;
  const auto peak = [&](const char* phase, const char* formula) {
    for (Statistic statistic : {Statistic::allocated, Statistic::active})
      all.push_back({.statistic = statistic,
                     .phase = phase,
                     .formula = {formula, values},
                     .unit = 4 * trial["n"]});
  };
  peak("forward", "3*block(4*n) + 512");
  peak("backward", keeps ? "4*block(4*n) + 512" : "3*block(4*n) + 512");
  all.push_back({.statistic = Statistic::allocated,
                 .phase = "",
                 .formula = {keeps ? "3*block(4*n) + 512" : "2*block(4*n) + 512", values},
                 .moment = "after forward"});
  return all;
}

// Dropped once a step, or never.
std::vector<Verdict> inspect(const Variant& variant, const RankRecord& record) {
  return {counted("order/drops", variant.name == "drop" ? 1 : 0,
                  std::ssize(record.steps.back().calls), "calls",
                  "one drop a step where the variant drops")};
}

Oracle reference(const Trial& trial) {
  Oracle oracle;
  double w = 1;
  const auto n = static_cast<double>(trial["n"]);
  auto whole = [&](double value) { return at::full({trial["n"]}, value, at::kDouble); };
  for (int step = 0; step < trial.steps; ++step) {
    const double x = 0.5 + step;
    oracle.loss.push_back(n * w * x);
    if (step == 0) oracle.gradients = {{"w", 0, whole(x)}};
    w -= 0.125 * x;
  }
  oracle.parameters = {{"w", 0, whole(w)}};
  oracle.allow(1e-6, "one float32 rounding an operation, at most eight of them");
  return oracle;
}

}  // namespace

Scenario toy_scenario(const ToyFaults& faults) {
  Scenario scenario;
  scenario.name = "toy";
  scenario.title = "a scratch buffer kept for nothing";
  scenario.symbols = {{"n", "elements of the parameter"}};
  scenario.parameters = {{"n", "elements of the parameter", 1, 1 << 15, true}};
  scenario.sizes = {{"smoke", {{"n", 1000}}, {Mode::math, Mode::shapes}}};
  scenario.variants = {{"keep", Role::baseline, "keeps the scratch buffer"},
                       {"drop", Role::fixed, "drops it"},
                       {"keep_too", Role::control, "claims to drop it", "memory/"}};
  scenario.make = [=](const Trial& trial, const Variant& variant, World&) {
    auto toy = std::make_unique<Toy>(trial, variant);
    if (variant.name == "drop") toy->faults = faults;                             // for tests
    if (variant.name == "drop" && faults.fix_does_nothing) toy->keep(true);       // for tests
    if (variant.name == "keep_too" && faults.control_is_right) toy->keep(false);  // for tests
    return toy;
  };
  scenario.forms = [](const Trial& trial, const Variant& variant, int) {
    return forms(trial, variant);
  };
  if (faults.slack > 0) give_slack(scenario.forms, faults.slack);  // for tests
  scenario.inspect = [](const Trial&, const Variant& variant, const RankRecord& record) {
    return inspect(variant, record);
  };
  scenario.reference = reference;
  return scenario;
}

Trial toy_trial(std::int64_t n, Mode mode, const std::string& schedule) {
  return {"toy", "smoke", schedule, {{"n", n}}, mode, 1, 3, 0};
}

}  // namespace tidemark::testing
