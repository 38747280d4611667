// The plan against PyTorch's own FSDP2 (torch 2.11.0, measured on the virtual device from Python):
// eight linear layers of 2048, 64 rows, fp32, one of eight ranks, an input that needs a gradient,
// Adam, last of three steps. FSDP2 reshards by a node on the input; with that put off to the end of
// backward for frozen units it is `late`.
#include <gtest/gtest.h>

#include "cases/frozen_reshard/policy.h"

namespace tidemark::frozen_reshard {
namespace {

constexpr reference::DeviceFacts kHopper{32 << 20, 132, 2048};
constexpr std::int64_t kHidden = 2048;
constexpr double kUnit = 4.0 * kHidden * kHidden;

Prediction plan(FreezingPattern pattern, const char* variant, bool reshards = true,
                bool input = true) {
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
                     {"precision", 0}},
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

// What the published figures have beside whole units and shards: a few activations and tables.
constexpr double kActivations = 0.08;

struct Measured {
  FreezingPattern pattern;
  const char* variant;
  bool reshards;
  Bytes forward, backward, optimizer, requested, reserved;
};

TEST(ReleasedCode, FullyShardToTheByte) {
  using enum FreezingPattern;
  for (const auto& m : {
           Measured{even, "input_node", true, 151331840, 174327296, 117572096, 174325772,
                    211812352},
           Measured{even, "late", true, 151331840, 224658944, 117572096, 224657420, 262144000},
           Measured{all_but_last, "input_node", true, 138552320, 140707328, 92406272, 140705804,
                    178257920},
           Measured{all_but_last, "late", true, 138552320, 241313792, 92406272, 241311796,
                    278921216},
           Measured{adapters, "input_node", true, 119026176, 119125504, 85328384, 119123508,
                    130023424},
           Measured{adapters, "late", true, 119026176, 236398592, 85328384, 236396596, 247463936},
           Measured{prefix, "input_node", true, 151331840, 174327296, 117572096, 174325772,
                    211812352},
           Measured{prefix, "late", true, 151331840, 209856512, 117572096, 209854516, 245366784},
           Measured{suffix, "input_node", true, 151331840, 172230144, 117572096, 172228620,
                    211812352},
           Measured{suffix, "late", true, 151331840, 239339008, 117572096, 239337484, 278921216},
           Measured{even, "input_node", false, 268772352, 254084608, 117572096, 254083084,
                    312475648},
           Measured{even, "late", false, 268772352, 254150144, 117572096, 254148620, 312475648},
       }) {
    const auto expected = plan(m.pattern, m.variant, m.reshards);
    const auto& phases = expected.predicted.phases;
    const int pattern = static_cast<int>(m.pattern);
    EXPECT_EQ(phases.at("forward")[0].peak, m.forward) << pattern << m.variant;
    EXPECT_EQ(phases.at("backward")[0].peak, m.backward) << pattern << m.variant;
    EXPECT_EQ(phases.at("optimizer")[0].peak, m.optimizer) << pattern << m.variant;
    EXPECT_EQ(phases.at("backward")[3].peak, m.requested) << pattern << m.variant;
    EXPECT_EQ(phases.at("optimizer")[2].peak, m.reserved) << pattern << m.variant;
  }
}

struct Released {
  FreezingPattern pattern;
  double released, late;  // of FSDP2
  reference::Composition expected_released, expected_late;
};

TEST(ReleasedCode, BackwardPeaksOfFullyShard) {
  // Derived: at the trained unit's own gradient it, the unit gathered ahead, the gradient and the
  // reduce-scatter's input of the one before are alive, 4 U; where only frozen units follow, it is
  // the copy-out of the next one; and `late` adds every frozen unit that backward has passed.
  const Released all[] = {{FreezingPattern::even, 4.39, 7.39, {4, 3}, {7, 3}},
                          {FreezingPattern::all_but_last, 3.14, 9.13, {3, 1}, {9, 1}},
                          {FreezingPattern::adapters, 2.06, 9.04, {2, 0}, {9, 0}},
                          {FreezingPattern::prefix, 4.39, 6.51, {4, 3}, {6, 4}},
                          {FreezingPattern::suffix, 4.27, 8.27, {4, 2}, {8, 2}}};
  for (const auto& each : all) {
    const auto released = plan(each.pattern, "input_node"), late = plan(each.pattern, "late");
    const auto& alive = released.at_peak.at("backward");
    const auto& alive_late = late.at_peak.at("backward");
    const int pattern = static_cast<int>(each.pattern);
    EXPECT_EQ(alive.units, each.expected_released.units) << pattern;
    EXPECT_EQ(alive.shards, each.expected_released.shards) << pattern;
    EXPECT_EQ(alive_late.units, each.expected_late.units) << pattern;
    EXPECT_EQ(alive_late.shards, each.expected_late.shards) << pattern;
    EXPECT_NEAR(peak(released), each.released, kActivations) << pattern;
    EXPECT_NEAR(peak(late), each.late, kActivations) << pattern;
  }
}

// Residency in units when the backwards of units 7 to 0 begin, all frozen but the last.
TEST(ReleasedCode, TrajectoryOfFullyShard) {
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
  const double figures[] = {2.01, 3.13, 4.13, 5.13, 6.13, 7.13, 8.13, 8.13};
  for (std::size_t i = 0; i < std::size(figures); ++i)
    EXPECT_NEAR(above_rest(late, late.moments[i].allocated), figures[i], kActivations) << i;
}

// Without resharding after forward the peak is nearly blind; the trajectory is not.
TEST(ReleasedCode, PeaksAreBlindWithoutReshardAfterForward) {
  const auto released = plan(FreezingPattern::even, "input_node", false);
  const auto late = plan(FreezingPattern::even, "late", false);
  EXPECT_NEAR(peak(released), 9.14, kActivations);
  EXPECT_NEAR(peak(late), 9.15, kActivations);
  const auto at_first = [](const Prediction& e) { return e.moments[e.moments.size() - 2]; };
  EXPECT_EQ(at_first(released).alive.units, 2);
  EXPECT_EQ(at_first(late).alive.units, 5);
  EXPECT_EQ(at_first(late).alive.shards, 4);
}

// With an input that needs no gradient a frozen prefix never enters backward.
TEST(ReleasedCode, NothingToSaveWhereBackwardDoesNotReach) {
  for (const auto pattern : {FreezingPattern::prefix, FreezingPattern::all_but_last}) {
    EXPECT_EQ(peak(plan(pattern, "late", true, false)),
              peak(plan(pattern, "multi_grad_hook", true, false)));
  }
}

// `never` keeps what backward has gathered through the optimizer, and the next forward has it.
TEST(ReleasedCode, NeverKeepsWhatLateFreesAtTheEnd) {
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
