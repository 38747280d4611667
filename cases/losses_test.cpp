// Every scenario's loss is one that trains: over the hundred steps of the nightly suite's loss
// curves it stays positive and falls.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>

#include "harness/device/platform.h"
#include "harness/run/variant.h"
#include "harness/testing/ranks.h"
#include "harness/testing/trials.h"

namespace tidemark {
namespace {

// holds: cases/README.md, Tolerances
TEST(Losses, ArePositiveAndFallOverAHundredSteps) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  set_race_detection(false);
  constexpr std::size_t kSteps = 100, kTenth = kSteps / 10;
  World& world = testing::world();
  int number = 0;
  for (const Scenario& scenario : scenarios()) {
    const int own = number++;  // by day every fourth scenario runs, so no part is empty
    if (!testing::drawn(own) && !testing::drawn(own + testing::kParts / 2)) continue;
    auto size = std::ranges::find(scenario.sizes, "losses", &Size::name);  // as the nightly suite
    if (size == scenario.sizes.end()) size = scenario.sizes.begin();
    const Trial trial{scenario.name, size->name,   "instant", size->params_on(world.size()),
                      Mode::math,    world.size(), kSteps};
    const auto& baseline = *std::ranges::find(scenario.variants, Role::baseline, &Variant::role);
    const auto run = attempt(
        world,
        [&] {
          std::vector<double> losses;
          for (const LossPoint& point : run_variant(scenario, trial, baseline, world).loss)
            losses.push_back(point.value.value_or(-1));
          ASSERT_EQ(losses.size(), kSteps) << scenario.name;
          std::vector<double> tenths;  // means
          for (auto at = losses.begin(); at != losses.end(); at += kTenth)
            tenths.push_back(std::accumulate(at, at + kTenth, 0.0) / kTenth);
          EXPECT_GT(*std::ranges::min_element(losses), 0) << scenario.name;
          EXPECT_LT(tenths.back(), 0.9 * tenths.front()) << scenario.name;
          // Not by its first steps alone.
          EXPECT_LT(tenths.back(), tenths[tenths.size() / 2]) << scenario.name;
          std::printf("%s: %.3f in the first ten steps, %.3f in the last ten\n",
                      scenario.name.c_str(), tenths.front(), tenths.back());
        },
        [] { return std::string(); });
    EXPECT_EQ(errors_text(run), "") << scenario.name;
  }
}

}  // namespace
}  // namespace tidemark
