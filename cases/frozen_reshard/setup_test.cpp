// Which units are frozen, reduced and late; and the limits of layout=flat: trials that it refuses,
// and figures that it does not claim.
#include <gtest/gtest.h>

#include <algorithm>

#include "cases/frozen_reshard/policy.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario frozen_reshard_scenario();

namespace frozen_reshard {
namespace {

using Units = std::vector<bool>;

TEST(Freezing, EveryPatternOfFiveLayers) {
  using enum FreezingPattern;
  EXPECT_EQ(frozen_units(even, 5), (Units{1, 0, 1, 0, 1}));
  EXPECT_EQ(frozen_units(odd, 5), (Units{0, 1, 0, 1, 0}));
  EXPECT_EQ(frozen_units(all_but_last, 5), (Units{1, 1, 1, 1, 0}));
  EXPECT_EQ(frozen_units(all_but_first, 5), (Units{0, 1, 1, 1, 1}));
  EXPECT_EQ(frozen_units(prefix, 5), (Units{1, 1, 0, 0, 0}));
  EXPECT_EQ(frozen_units(suffix, 5), (Units{0, 0, 0, 1, 1}));
  EXPECT_EQ(frozen_units(adapters, 2), (Units{1, 0, 1, 0}));
  EXPECT_EQ(frozen_units(nested_adapters, 2), (Units{1, 0, 1, 0}));
  EXPECT_EQ(frozen_units(mixed, 5), (Units{1, 0, 1, 0, 1}));
}

TEST(Freezing, ThawingSwapsTheFirstOfEachKind) {
  Units units{0, 0, 1, 1};
  thaw(units);
  EXPECT_EQ(units, (Units{1, 0, 0, 1}));
}

TEST(Freezing, UnitsThatReduceInAnEarlierBackward) {
  const Units frozen{0, 1, 0, 0};
  EXPECT_EQ(synced_units(frozen, NoSync::never, false), (Units{1, 1, 1, 1}));
  EXPECT_EQ(synced_units(frozen, NoSync::but_last, false), (Units{0, 1, 0, 0}));
  EXPECT_EQ(synced_units(frozen, NoSync::every_second, false), (Units{0, 1, 1, 0}));
  for (const auto each : {NoSync::never, NoSync::but_last, NoSync::every_second})
    EXPECT_EQ(synced_units(frozen, each, true), (Units{1, 1, 1, 1}));
}

TEST(Freezing, AUnitIsLateIfItIsWholeTwoUnitsLaterOrAtTheEnd) {
  const Units frozen(4, true);
  std::vector<Call> late, in_time;
  for (int k = 3; k >= 0; --k) {
    const auto unit = "unit " + std::to_string(k);
    late.push_back({"backward", unit});
    in_time.push_back({"backward", unit});
    in_time.push_back({"reshard", unit});
  }
  for (auto* calls : {&late, &in_time}) calls->push_back({"end of backward", "step"});
  EXPECT_EQ(resharded_late(late, frozen), 4);
  EXPECT_EQ(resharded_late(in_time, frozen), 0);
  EXPECT_EQ(resharded_late(late, Units(4, false)), 0);
}

// A layer's backward begins before that of the adapter inside it, and the hooks of a layer's input
// run after that of the layer before has begun.
TEST(Freezing, LateIsALayerAroundAnAdapterWholeALayerOn) {
  const Units frozen{1, 0, 1, 0};
  const std::vector<Call> by_hooks{{"backward", "unit 2"}, {"backward", "unit 3"},
                                   {"backward", "unit 0"}, {"reshard", "unit 2"},
                                   {"backward", "unit 1"}, {"reshard", "unit 0"}};
  EXPECT_EQ(resharded_late(by_hooks, frozen, /*nested=*/true), 0);
  auto late = by_hooks;
  std::swap(late[3], late[4]);
  late.pop_back();
  late.push_back({"end of backward", "step"});
  EXPECT_EQ(resharded_late(late, frozen, /*nested=*/true), 1);  // unit 0
}

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
