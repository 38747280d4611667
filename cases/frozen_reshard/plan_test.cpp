// The plan's peaks by units and shards, derived on paper: eight linear layers of 2048, 64
// rows, fp32, one of eight ranks, an input that needs a gradient, Adam, last of three steps. Its
// bytes are compared with released code by upstream/.
#include <gtest/gtest.h>

#include <algorithm>

#include "cases/frozen_reshard/policy.h"

namespace tidemark {
Scenario frozen_reshard_scenario();
}

namespace tidemark::frozen_reshard {
namespace {

constexpr reference::DeviceFacts kHopper{32 << 20, 132, 2048};
constexpr std::int64_t kHidden = 2048;
constexpr double kUnit = 4.0 * kHidden * kHidden;

Prediction plan(FreezingPattern pattern, const char* variant, bool reshards = true,
                bool input = true, bool flat = false) {
  const Trial trial{"frozen_reshard",
                    "released",
                    "instant",
                    {{"layers", 8},
                     {"hidden", kHidden},
                     {"batch", 64},
                     {"pattern", static_cast<std::int64_t>(pattern)},
                     {"adapter_rank", 16},
                     {"reshard_after_forward", reshards},
                     {"microbatches", 1},
                     {"in_flight", 0},
                     {"no_sync", 0},
                     {"input_gradient", input},
                     {"shared_input", 0},
                     {"thaw_step", 0},
                     {"precision", 0},
                     {"layout", flat},
                     {"backward_prefetch", 1}},
                    Mode::shapes,
                    8,
                    3,
                    0};
  return plan(setup_of(trial, variants()[variant]), kHopper);
}

// Above what rests: parameters, optimizer state, the input.
double above_rest(const Prediction& expected, Bytes bytes) {
  return (static_cast<double>(bytes - expected.predicted.rest[0]) / kUnit) +
         static_cast<double>(expected.kept);
}

double peak(const Prediction& expected) {
  return above_rest(expected, expected.predicted.phases.at("backward")[0].peak);
}

Prediction flat_plan(FreezingPattern pattern, const char* variant) {
  return plan(pattern, variant, true, true, /*flat=*/true);
}

struct Composition {
  FreezingPattern pattern;
  reference::Composition fixed, late;
};

void expect_peak(const Prediction& expected, const reference::Composition& by_hand, int pattern) {
  EXPECT_EQ(expected.at_peak.at("backward").units, by_hand.units) << pattern;
  EXPECT_EQ(expected.at_peak.at("backward").shards, by_hand.shards) << pattern;
}

TEST(Plan, BackwardPeaksConsistOfWholeUnits) {
  // Derived: at the trained unit's own gradient it, the unit gathered ahead, the gradient and the
  // reduce-scatter's input of the one before are alive, 4 U; where only frozen units follow, it is
  // the copy-out of the next one; and `late` adds every frozen unit that backward has passed.
  const Composition all[] = {{FreezingPattern::even, {4, 3}, {7, 3}},
                             {FreezingPattern::all_but_last, {3, 1}, {9, 1}},
                             {FreezingPattern::adapters, {2, 0}, {9, 0}},
                             {FreezingPattern::nested_adapters, {2, 0}, {9, 0}},
                             {FreezingPattern::prefix, {4, 3}, {6, 4}},
                             {FreezingPattern::suffix, {4, 2}, {8, 2}}};
  for (const auto& each : all) {
    const int pattern = static_cast<int>(each.pattern);
    expect_peak(plan(each.pattern, "input_node"), each.fixed, pattern);
    expect_peak(plan(each.pattern, "late"), each.late, pattern);
  }
}

// A trained unit's gradient is there twice, its weight's and the flat parameter's, besides it and
// the unit gathered ahead, 4 U. Layers with adapters beside them are freed before that of the layer
// before is gathered, and later around them.
TEST(Plan, FlatPeaksHaveNoBuffersAndTwoGradients) {
  const Composition all[] = {{FreezingPattern::even, {4, 3}, {7, 3}},
                             {FreezingPattern::all_but_last, {4, 0}, {7, 1}},
                             {FreezingPattern::adapters, {1, 0}, {8, 0}},
                             {FreezingPattern::nested_adapters, {2, 0}, {8, 0}},
                             {FreezingPattern::prefix, {4, 3}, {4, 4}},
                             {FreezingPattern::suffix, {4, 2}, {8, 2}}};
  for (const auto& each : all) {
    const int pattern = static_cast<int>(each.pattern);
    expect_peak(flat_plan(each.pattern, "will_execute"), each.fixed, pattern);
    expect_peak(flat_plan(each.pattern, "late"), each.late, pattern);
  }
}

// With the one sharded gradient: the first unit, or, where all frozen ones are freed at the end of
// backward, seven. No longer allocated, they wait for the optimizer's first allocation.
TEST(Plan, WhatBackwardFreesLastWaitsForTheOptimizer) {
  const auto waiting = [](const char* variant) {
    const auto expected = flat_plan(FreezingPattern::all_but_last, variant);
    const auto& optimizer = expected.predicted.phases.at("optimizer");
    EXPECT_EQ(static_cast<double>(optimizer[0].peak - expected.predicted.rest[0]), kUnit * 2 / 8);
    return static_cast<double>(optimizer[1].peak - expected.predicted.rest[1]) / kUnit;
  };
  EXPECT_EQ(waiting("will_execute"), 1 + 1.0 / 8);
  EXPECT_EQ(waiting("late"), 7 + 1.0 / 8);
}

// In weights, with a shard an eighth of one: a trained unit's two, the buffer of the two before it,
// its gradient, the reduce-scatter's input of the unit behind it, and three shards; `late` adds the
// three frozen units behind. Activations are a 256th.
TEST(Plan, MixedUnitsReduceTheTrainedWeightAlone) {
  EXPECT_NEAR(peak(plan(FreezingPattern::mixed, "input_node")), 2 + 2 + 1 + 1 + 3.0 / 8, 1.0 / 16);
  EXPECT_NEAR(peak(plan(FreezingPattern::mixed, "late")), 2 + 2 + 1 + 1 + 3.0 / 8 + 3 * 2,
              1.0 / 16);
}

// Residency in units when the backwards of units 7 to 0 begin, all frozen but the last.
TEST(Plan, TrajectoryGrowsByEveryFrozenUnit) {
  const auto trajectory = [](const Prediction& expected) {
    std::vector<std::int64_t> units;
    for (const auto& m : expected.moments) units.push_back(m.alive.units);
    units.pop_back();  // the end of backward
    return units;
  };
  const auto released = plan(FreezingPattern::all_but_last, "input_node");
  const auto late = plan(FreezingPattern::all_but_last, "late");
  EXPECT_EQ(trajectory(released), (std::vector<std::int64_t>{2, 3, 3, 3, 3, 3, 3, 2}));
  EXPECT_EQ(trajectory(late), (std::vector<std::int64_t>{2, 3, 4, 5, 6, 7, 8, 8}));
}

// Without resharding after forward the peak is blind but for a shard; the trajectory is not.
TEST(Plan, PeaksAreBlindWithoutReshardAfterForward) {
  const auto released = plan(FreezingPattern::even, "input_node", false);
  const auto late = plan(FreezingPattern::even, "late", false);
  EXPECT_LT(peak(late) - peak(released), 1.0 / 8);
  const auto at_first = [](const Prediction& e) { return e.moments[e.moments.size() - 2]; };
  EXPECT_EQ(at_first(released).alive.units, 2);
  EXPECT_EQ(at_first(late).alive.units, 5);
  EXPECT_EQ(at_first(late).alive.shards, 4);
}

// With an input that needs no gradient a frozen prefix never enters backward.
TEST(Plan, NothingToSaveWhereBackwardDoesNotReach) {
  for (const auto pattern : {FreezingPattern::prefix, FreezingPattern::all_but_last}) {
    EXPECT_EQ(peak(plan(pattern, "late", true, false)),
              peak(plan(pattern, "multi_grad_hook", true, false)));
  }
}

// `never` keeps what backward has gathered through the optimizer, and the next forward has it.
TEST(Plan, NeverKeepsWhatLateFreesAtTheEnd) {
  const auto never = plan(FreezingPattern::all_but_last, "never"),
             late = plan(FreezingPattern::all_but_last, "late");
  EXPECT_EQ(never.kept, 7);
  EXPECT_EQ(late.kept, 0);
  const auto gathers = [](const Prediction& e) {
    std::int64_t all = 0;
    for (const auto& call : e.calls) {
      if (call.op == "backward") break;
      all += call.op == "unshard";
    }
    return all;
  };
  // And two as backward begins: the last unit, and the one before it ahead of its turn.
  EXPECT_EQ(gathers(never), 1 + 2);
  EXPECT_EQ(gathers(late), 8 + 2);
  EXPECT_EQ(peak(never), peak(late));
}

TEST(Flat, RefusesMixedUnitsAndMicrobatchesInFlight) {
  const auto scenario = frozen_reshard_scenario();
  const auto why = [&](const Params& own) {
    Trial trial{scenario.name, "smoke", "instant", scenario.sizes.front().params,
                Mode::shapes,  2,       4,         0};
    for (const auto& [name, value] : own) trial.params.at(name) = value;
    return scenario.unfit(trial);
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
  const auto claims = [&](const std::string& schedule, std::int64_t layout, Statistic statistic) {
    Trial trial{scenario.name, "smoke", schedule, scenario.sizes.front().params,
                Mode::shapes,  2,       4,        0};
    trial.params.at("layout") = layout;
    const Variant& late = *std::ranges::find(scenario.variants, "late", &Variant::name);
    std::ptrdiff_t count = 0;
    for (const auto& all : {forms(trial, late, 0), replay(trial, late, 0)})
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

// The saving on paper, before the plan: late - fixed = the frozen units that backward has passed at
// the peak, (n - 1) U of n where every second is frozen.
TEST(Saving, GrowsWithTheFrozenUnits) {
  for (const auto* fixed : {"multi_grad_hook", "input_node", "will_execute"}) {
    const auto late = plan(FreezingPattern::even, "late"),
               good = plan(FreezingPattern::even, fixed);
    EXPECT_EQ(late.at_peak.at("backward").units - good.at_peak.at("backward").units, 4 - 1)
        << fixed;
  }
}

}  // namespace
}  // namespace tidemark::frozen_reshard
