// Sharpness of the tolerances: numbers by TF32, in the arithmetic of every case, are refused both
// by the reference and by what two machines may differ by (reports/numbers/difference.h); and two
// runs by the same arithmetic have the same bits.
#include "harness/device/arithmetic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/device/platform.h"
#include "harness/run/plan.h"
#include "harness/run/runner.h"

namespace tidemark {
namespace {

struct Computed {
  Numbers numbers;
  double tolerance = 0;
  std::vector<Verdict> verdicts;
};

/// The smoke size of a scenario's baseline on one rank, in fp32 where there is a choice.
Computed compute(const Scenario& scenario) {
  std::vector<std::string> set;
  for (const auto& parameter : scenario.parameters)
    if (parameter.name == "precision") set.push_back("precision=0");
  const auto planned = plan({.patterns = {scenario.name + "/" + scenario.variants.front().name},
                             .size = "smoke",
                             .mode = "math",
                             .schedule = "instant",
                             .set = set,
                             .ranks = 1,
                             .steps = 3},
                            scenarios(), platform_schedules());
  World world;
  RunOptions options;
  options.details = Details::none;
  options.selected = [&](const Variant& v) { return v.name == scenario.variants.front().name; };
  Computed out;
  options.numbers = [&](const Variant&, const Numbers& numbers, const Oracle& oracle) {
    out.numbers = numbers;
    out.tolerance = *std::ranges::max_element(oracle.gradient_tolerance);
  };
  out.verdicts = run_trial(scenario, planned.at(0).trial, world, options).verdicts;
  return out;
}

struct Tf32 {
  Tf32() { at::globalContext().setAllowTF32CuBLAS(true); }
  ~Tf32() { set_arithmetic(); }
};

/// The largest |a - b| of a tensor, in parts of what two machines may differ by there.
double share(const Computed& a, const Computed& b) {
  const double bound = 2 * a.tolerance / (1 - a.tolerance);
  const double gradients =
      compare_shards("gradient", a.numbers.gradients, b.numbers.gradients).relative;
  const double parameters =
      compare_shards("parameter", a.numbers.parameters, b.numbers.parameters).relative;
  return std::max(gradients, parameters) / bound;
}

int refused(const std::vector<Verdict>& verdicts) {
  return static_cast<int>(std::ranges::count_if(verdicts, [](const Verdict& v) {
    return v.name.starts_with("parity/reference/") && v.status == Status::fail;
  }));
}

// holds: cases/README.md, Tolerances
TEST(Arithmetic, Tf32IsRefusedInEveryCase) {
  set_arithmetic();
  ASSERT_FALSE(scenarios().empty());
  for (const Scenario& scenario : scenarios()) {
    const Computed right = compute(scenario), again = compute(scenario);
    EXPECT_EQ(refused(right.verdicts), 0) << scenario.name;
    EXPECT_EQ(share(right, again), 0) << scenario.name;
    const Tf32 allowed;
    const Computed rounded = compute(scenario);
    EXPECT_GT(refused(rounded.verdicts), 0) << scenario.name;
    EXPECT_GT(share(right, rounded), 1) << scenario.name;
    RecordProperty(scenario.name, std::to_string(share(right, rounded)));
    std::printf("%s: TF32 is %.1f times as far off as two machines may be\n", scenario.name.c_str(),
                share(right, rounded));
  }
}

}  // namespace
}  // namespace tidemark
