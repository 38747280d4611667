// The training that first showed the waste, Llama-70B with weights and gradients in single
// precision, on the first rank of eight: without the fixes it does not fit a GPU of 80 GB, with
// them it does. On paper first, then on the virtual device.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/device/platform.h"
#include "harness/testing/ranks.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario tp_buffer_reuse_scenario();

namespace tp_buffer_reuse {
namespace {

class Fit : public ::testing::Test {
 protected:
  void SetUp() override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    set_race_detection(false);
  }
  const Variant& variant(const char* name) const {
    return *std::ranges::find(scenario_.variants, name, &Variant::name);
  }

  const Scenario scenario_ = tp_buffer_reuse_scenario();
  const Size& size_ = *std::ranges::find(scenario_.sizes, "llama70b", &Size::name);
  const Trial trial_{scenario_.name, size_.name, "instant", size_.params, Mode::shapes, 8, 2, 0};
};

// The forms alone, beside bytes that are computed by hand from the shapes of Llama-70B.
TEST_F(Fit, IsWhatTheShapesSay) {
  constexpr double kGiB = 0x1p30;
  // A rank's weights: 20 layers of queries, keys and values, output, gate, up and down; and norms.
  const double weights =
      20 * (8192.0 * (64 + 2 * 8) * 128 + 8192.0 * 8192 + 3 * 8192.0 * 28672) / 8 + 20 * 2 * 8192;
  const double rest = weights * (2 + 4 + 4 + 8);  // bf16; main weight and gradient; two moments
  const double gathered = 8192.0 * 8192 * 2;
  const auto highest = [&](const char* name) {
    double most = 0;
    for (const auto& form : forms_of(scenario_, trial_, variant(name), 0))
      if (form.statistic == Statistic::requested && !form.at_end)
        most = std::max(most, form.formula.evaluate());
    return most;
  };
  EXPECT_NEAR(rest / kGiB, 35.86, 0.01);
  // 160 column linears (4 microbatches, 20 layers, 2) keep an eighth of what they kept.
  EXPECT_NEAR(highest("separate") - highest("recompute"), 160 * gathered * 7 / 8 - gathered,
              gathered);
  EXPECT_GT(highest("separate") / kGiB, rest / kGiB + 43);
  EXPECT_LT(highest("recompute_fused_glu") / kGiB, rest / kGiB + 22);
}

// holds: cases/README.md, The claims of the reports
TEST_F(Fit, OnAGpuOf80GBTheBaselineDoesNotAndTheFixesDo) {
  World alone(0, 8);
  for (const char* name : {"separate", "recompute", "recompute_fused_glu"}) {
    const auto record = run_trial(scenario_, trial_, alone, testing::only(name));
    const std::string& error = record.variants.front().error;
    if (variant(name).role == Role::baseline) {
      EXPECT_NE(error.find("out of memory"), error.npos) << error;
      continue;
    }
    EXPECT_EQ(error, "") << name;
    EXPECT_GT(testing::passed_of(record, "memory/form/"), 0) << name;
    testing::passed(record, trial_);
  }
}

}  // namespace
}  // namespace tp_buffer_reuse
}  // namespace tidemark
