// Programs that are wrong by little or in one place, in size smoke: baseline and fix are wrong
// alike, so that only what is known of them from elsewhere can tell, and each is red by a verdict
// of the kind that stands beside it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>

#include "cases/mistakes.h"
#include "harness/device/platform.h"
#include "harness/run/gather.h"
#include "harness/testing/ranks.h"
#include "harness/testing/trials.h"

namespace tidemark {
namespace {

using testing::broken;
using testing::is_product;
using testing::Mistake;
using testing::now;
using testing::Tensors;

void keep(const Tensors& parameters, int, Tensors& kept) {
  kept.clear();
  for (const at::Tensor& each : parameters) kept.push_back(each.clone());
}

// Back from the end of a step to a part of it: 1 is all of the update.
void update_by(const Tensors& parameters, const Tensors& kept, double part, std::size_t from = 0,
               std::size_t count = SIZE_MAX) {
  for (std::size_t k = from; k < parameters.size() && k - from < count; ++k)
    parameters[k].copy_(kept[k] + part * (parameters[k] - kept[k]));
}

// Adam's divisor in step `step`, counted from 0: the root of the second moment's correction.
double root(int step) { return std::sqrt(1 - std::pow(0.999, step + 1)); }

std::vector<Mistake> mutants() {
  // Of the roots of Adam's second moments.
  const auto denominators = [](const std::function<void(const at::Tensor&)>& how) {
    return [how](const std::string& name, int, Tensors& results) {
      if (name != "aten::_foreach_sqrt") return false;
      for (const at::Tensor& each : results) how(each);
      return true;
    };
  };
  const auto product = [](int which, const std::function<void(const at::Tensor&)>& how) {
    return [=](const std::string& name, int nth, Tensors& results) {
      if (!is_product(name) || nth != which) return false;
      how(results.front());
      return true;
    };
  };
  return {
      // Training, between steps and in Adam.
      {.name = "updates are 1.001 times as long",
       .caught_by = "parity/reference/parameters",
       .before = keep,
       .after = [](auto& p, int, auto& kept) { update_by(p, kept, 1.001); }},
      {.name = "the last step's update is lost",
       .caught_by = "parity/reference/parameters",
       .before = keep,
       .after =
           [](auto& p, int step, auto& kept) {
             if (step == 2) update_by(p, kept, 0);
           }},
      {.name = "the second step leaves one tensor as it is",
       .caught_by = "parity/reference/parameters",
       .before = keep,
       .after =
           [](auto& p, int step, auto& kept) {
             if (step == 1) update_by(p, kept, 0, 1, 1);
           }},
      {.name = "weights decay by 1e-5 a step",
       .caught_by = "parity/reference/parameters",
       .after =
           [](auto& p, int, auto&) {
             for (auto& each : p) each.mul_(1 - 1e-5);
           }},
      {.name = "rank 1 alone: updates are 1.01 times as long",
       .caught_by = "parity/reference/parameters",
       .before = keep,
       .after =
           [](auto& p, int, auto& kept) {
             if (testing::world().rank() == 1) update_by(p, kept, 1.01);
           }},
      {.name = "Adam's second moment is 1.001 times as large",
       .caught_by = "parity/reference/parameters",
       .leaves = denominators([](const at::Tensor& one) { one.mul_(std::sqrt(1.001)); })},
      {.name = "Adam's epsilon is 1e-6",
       .caught_by = "parity/reference/parameters",
       .leaves =
           denominators([](const at::Tensor& one) { one.add_((1e-6 - 1e-8) * root(now.step)); })},
      {.name = "Adam corrects the second moment by the step after",
       .caught_by = "parity/reference/parameters",
       .leaves = denominators(
           [](const at::Tensor& one) { one.mul_(root(now.step) / root(now.step + 1)); })},
      // Arithmetic, in one operator.
      {.name = "the first product is 1.0001 times as large",
       .caught_by = "parity/reference/",
       .leaves = product(0, [](const at::Tensor& one) { one.mul_(1.0001); })},
      {.name = "the first product is rounded to bf16",
       .caught_by = "parity/reference/",
       .leaves = product(0, [](const at::Tensor& one) { one.copy_(one.to(at::kBFloat16)); })},
      {.name = "one element of the fifth product is 0",
       .caught_by = "parity/reference/",
       .leaves = product(4, [](const at::Tensor& one) { one.view({-1})[0].zero_(); })},
      // Collectives and streams.
      {.name = "sums in place of averages",
       .caught_by = "parity/reference/",
       .reduces =
           [](int, std::size_t&, ncclRedOp_t& how, bool&, cudaStream_t&) {
             const bool average = how == ncclAvg;
             how = ncclSum;
             return average;
           }},
      {.name = "the second step's first reduction is left out",
       .caught_by = "parity/",
       .reduces = [](int nth, std::size_t&, ncclRedOp_t&, bool& left_out,
                     cudaStream_t&) { return left_out = now.step == 1 && nth == 0; }},
      {.name = "the last element of each reduction is left out",
       .caught_by = "parity/",
       .reduces =
           [](int, std::size_t& count, ncclRedOp_t&, bool&, cudaStream_t&) {
             if (count < 2) return false;
             --count;
             return true;
           }},
      {.name = "a reduction runs on another stream",
       .caught_by = "race/",
       .reduces =
           [](int nth, std::size_t&, ncclRedOp_t&, bool&, cudaStream_t& stream) {
             static const cudaStream_t other = [] {
               cudaStream_t made_here = nullptr;
               cudaStreamCreateWithFlags(&made_here, cudaStreamNonBlocking);
               return made_here;
             }();
             if (nth != 0) return false;
             stream = other;
             return true;
           }},
      {.name = "no stream waits for another one",
       .caught_by = "race/",
       .leaves_out_wait = [](int) { return true; }},
      // Memory.
      {.name = "512 bytes are kept in every step",
       .caught_by = "rest/",
       .after =
           [](auto&, int, auto& kept) {
             kept.push_back(at::empty({128}, at::TensorOptions().device(at::kCUDA)));
           }},
      {.name = "512 bytes more are alive in every step",
       .caught_by = "memory/form",
       .before =
           [](auto&, int, auto& kept) {
             kept = {at::empty({128}, at::TensorOptions().device(at::kCUDA))};
           },
       .after = [](auto&, int, auto& kept) { kept.clear(); }},
      {.name = "results are freed four operators late",
       .caught_by = "memory/form|trajectory/",
       .leaves =
           [](const std::string&, int, Tensors& results) {
             now.held.push_back(results);
             if (now.held.size() > 4) now.held.pop_front();
             return true;
           }},
      // What is reported.
      {.name = "losses are reported a step late",
       .caught_by = "parity/reference/loss",
       .oracle = [](Oracle& oracle) { std::ranges::rotate(oracle.loss, oracle.loss.begin() + 1); }},
      {.name = "the first gradient is 1.0001 times as large",
       .caught_by = "parity/reference/gradients",
       .oracle = [](Oracle& oracle) { oracle.gradients.front().values.mul_(1.0001); }},
  };
}

const Verdict* failed_of(const TrialRecord& record, const std::string& prefixes) {
  const auto bar = prefixes.find('|');
  const std::string one = prefixes.substr(0, bar);
  for (const Verdict& verdict : record.verdicts)
    if (verdict.status == Status::fail && verdict.name.starts_with(one)) return &verdict;
  return bar == prefixes.npos ? nullptr : failed_of(record, prefixes.substr(bar + 1));
}

class Mutants : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    testing::follow_operators();
    set_race_detection(true);
  }
  const Scenario& scenario() const {
    return *std::ranges::find(scenarios(), GetParam(), &Scenario::name);
  }
  // The first baseline and the first fix, on every rank.
  TrialRecord run(const Scenario& made_of) const {
    World& world = testing::world();
    const Size& size = scenario().sizes.front();
    const Trial trial{GetParam(), size.name,    "instant", size.params_on(world.size()),
                      Mode::math, world.size(), 3,         0};
    std::set<std::string> chosen;
    for (const Role role : {Role::baseline, Role::fixed})
      chosen.insert(std::ranges::find(scenario().variants, role, &Variant::role)->name);
    RunOptions options{.details = Details::none};
    options.selected = [&](const Variant& variant) { return chosen.contains(variant.name); };
    return run_trial(made_of, trial, world, options);
  }
};

// holds: cases/README.md, Tolerances
TEST_P(Mutants, AreRedByTheVerdictThatNamesThem) {
  World& world = testing::world();
  const TrialRecord right = run(scenario());
  if (world.leads())
    for (const Verdict& verdict : right.verdicts)
      EXPECT_NE(verdict.status, Status::fail) << verdict.name << " " << verdict.why;
  for (const Mistake& mutant : mutants()) {
    now.done = 0;
    const TrialRecord record = run(broken(scenario(), mutant));
    if (world.worst(now.done > 0 ? 1 : 0) == 0) continue;  // it has nothing to break here
    if (!world.leads()) continue;
    const Verdict* verdict = failed_of(record, mutant.caught_by);
    if (verdict != nullptr)
      std::printf("%s | %s | %s | %g of %g %s\n", mutant.name.c_str(), GetParam().c_str(),
                  verdict->name.c_str(), verdict->measured.value_or(NAN),
                  verdict->high.value_or(NAN), verdict->why.c_str());
    std::string others;
    for (const Verdict& each : record.verdicts)
      if (each.status == Status::fail && others.find(each.name) == others.npos)
        others += " " + each.name;
    for (const VariantRecord& each : record.variants) others += " " + each.error;
    EXPECT_NE(verdict, nullptr) << mutant.name << " is not caught by " << mutant.caught_by
                                << "; what failed:" << others;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& scenario : scenarios()) all.push_back(scenario.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Scenario, Mutants, ::testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tidemark
