// The limits of layout=flat: trials that it refuses, and figures that it does not claim.
#include <gtest/gtest.h>

#include <algorithm>

#include "cases/frozen_reshard/policy.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario frozen_reshard_scenario();

namespace frozen_reshard {
namespace {

TEST(Flat, RefusesMixedUnitsAndMicrobatchesInFlight) {
  const auto scenario = frozen_reshard_scenario();
  const auto why = [&](const Params& own) {
    return scenario.unfit(testing::first_size(scenario, 2, 4, own));
  };
  const auto mixed = static_cast<std::int64_t>(FreezingPattern::mixed);
  EXPECT_EQ(why({{"layout", 1}}), "");
  EXPECT_TRUE(why({{"layout", 1}, {"in_flight", 1}}).starts_with("layout=flat: "));
  EXPECT_EQ(why({{"layout", 1}, {"in_flight", 1}, {"microbatches", 1}}), "");
  EXPECT_TRUE(why({{"layout", 1}, {"pattern", mixed}}).starts_with("layout=flat: "));
  EXPECT_EQ(why({{"layout", 0}, {"pattern", mixed}, {"in_flight", 1}}), "");
}

TEST(Flat, WithAClockClaimsAllocatedBytesAlone) {
  const auto scenario = frozen_reshard_scenario();
  const auto& late = *std::ranges::find(scenario.variants, "late", &Variant::name);
  const auto claims = [&](const std::string& schedule, std::int64_t layout, Statistic statistic) {
    Trial one = testing::first_size(scenario, 2, 4, {{"layout", layout}});
    one.schedule = schedule;
    std::ptrdiff_t count = 0;
    for (const auto& all : {forms(one, late, 0), replay(one, late, 0)})
      count += std::ranges::count(all, statistic, &Expectation::statistic);
    return count;
  };
  for (const Statistic waiting : {Statistic::active, Statistic::requested}) {
    EXPECT_EQ(claims("calibrated", 1, waiting), 0);
    EXPECT_GT(claims("instant", 1, waiting), 0);
    EXPECT_GT(claims("lagging", 1, waiting), 0) << "of the replay";
    EXPECT_GT(claims("calibrated", 0, waiting), 0);
  }
  EXPECT_GT(claims("calibrated", 1, Statistic::allocated), 0);
  EXPECT_EQ(claims("calibrated", 1, Statistic::reserved), 0) << "no replay";
}

}  // namespace
}  // namespace frozen_reshard
}  // namespace tidemark
