// The aliased buffer's story, in numbers: the loss of step 0 is the baseline's bit for bit, the
// gradients of the column linears are wrong, everything else's are not, and the loss is off from
// step 1 on.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/testing/ranks.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario tp_buffer_reuse_scenario();

namespace tp_buffer_reuse {
namespace {

TEST(Story, AliasingSparesTheFirstLossAndSpoilsTheColumnGradients) {
  World& world = testing::world();
  const auto scenario = tp_buffer_reuse_scenario();
  const Trial trial = testing::first_size(scenario, world.size(), /*steps=*/3, {}, Mode::math);
  const auto run = [&](const char* variant) {
    return testing::numbers_of(scenario, trial, variant, world);
  };
  const auto right = run("separate");
  for (const char* variant : {"aliased", "aliased_by_name"}) {
    const auto wrong = run(variant);
    ASSERT_EQ(wrong.loss.size(), 3U);
    EXPECT_EQ(wrong.loss[0].value, right.loss[0].value);
    EXPECT_NE(wrong.loss[1].value, right.loss[1].value);
    EXPECT_NE(wrong.loss[2].value, right.loss[2].value);
    ASSERT_EQ(wrong.gradients.size(), right.gradients.size());
    int spoiled = 0;
    for (std::size_t i = 0; i < wrong.gradients.size(); ++i) {
      const auto &a = wrong.gradients[i], &b = right.gradients[i];
      const bool column =
          a.name.find("query") != std::string::npos || a.name.find("key") != std::string::npos ||
          a.name.find("value") != std::string::npos || a.name.find("gate") != std::string::npos ||
          a.name.find("up") != std::string::npos;
      const double error = ((a.values - b.values).norm() / b.values.norm()).item<double>();
      if (column) {
        ++spoiled;
        EXPECT_GT(error, 0.5) << variant << " " << a.name;
      } else {
        EXPECT_EQ(error, 0) << variant << " " << a.name;
      }
    }
    EXPECT_EQ(spoiled, 2 * 5);
  }
}

}  // namespace
}  // namespace tp_buffer_reuse
}  // namespace tidemark
