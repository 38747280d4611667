// One training on 1, 2 and 4 ranks: each run is within the reference's tolerance of the exact
// result, so any two are within twice that of each other, in every loss, gradient and parameter.
#include "harness/testing/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/testing/trials.h"

namespace tidemark {
Scenario fsdp_prefetch_scenario();

namespace fsdp_prefetch {
namespace {

TEST(Ranks, OneTwoAndFourAgreeWithinTwiceTheErrorModel) {
  World& all = testing::world();
  World alone;
  ASSERT_EQ(all.size(), 4);
  const auto scenario = fsdp_prefetch_scenario();
  for (const std::int64_t hidden : {48, 37}) {
    Trial trial{scenario.name, "smoke", "lagging", scenario.sizes.front().params,
                Mode::math,    1,       4,         7};
    trial.params["hidden"] = hidden;
    const Numbers one = testing::numbers_of(scenario, trial, "stash", alone);
    const Oracle exact = scenario.reference(trial);
    const auto twice = [](const std::vector<double>& tolerances) {
      return 2 * *std::ranges::max_element(tolerances);
    };
    for (const int ranks : {2, 4}) {
      trial.ranks = ranks;
      SCOPED_TRACE(testing::described(trial));
      if (auto some = all.first(ranks)) {
        const Numbers mine = testing::numbers_of(scenario, trial, "stash", *some);
        EXPECT_EQ(mine.loss.size(), 4u);
        EXPECT_LE(compare_losses(mine.loss, one.loss).relative, twice(exact.loss_tolerance));
        const auto gradients = compare_shards("gradient", mine.gradients, one.gradients);
        EXPECT_LE(gradients.relative, twice(exact.gradient_tolerance)) << gradients.worst;
        // Not the same computation by accident: another order of summation shows.
        EXPECT_GT(gradients.relative, 0);
        const auto parameters = compare_shards("parameter", mine.parameters, one.parameters);
        EXPECT_LE(parameters.relative, twice(exact.plain_parameter_tolerance)) << parameters.worst;
        std::int64_t elements = 0;
        for (const auto& shard : mine.parameters) elements += shard.values.numel();
        std::int64_t all_elements = 0;
        for (const auto& each : some->exchange(std::to_string(elements)))
          all_elements += std::stoll(each);
        EXPECT_EQ(all_elements, 2 * trial["layers"] * hidden * hidden + 2 * hidden) << "a gap";
      }
      all.barrier();
    }
  }
}

}  // namespace
}  // namespace fsdp_prefetch
}  // namespace tidemark
