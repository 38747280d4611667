// Medians, quartiles and ratios of step times.
#include "harness/measure/timing.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TrialRecord trial() {
  TrialRecord out;
  out.variants.resize(3);
  out.variants[0].role = Role::baseline;
  out.variants[1].role = out.variants[2].role = Role::fixed;
  return out;
}

TEST(Timing, TheFirstStepOfEachRepetitionIsNotCounted) {
  TrialRecord record = trial();
  add_timing(record, {{{9000, 10, 20}, {9000, 5, 10}, {}}, {{9000, 30, 40}, {9000, 15, 20}, {}}});
  const Timing base = record.variants[0].timing.value(), fix = record.variants[1].timing.value();
  EXPECT_EQ(base.repetitions, 2);
  EXPECT_EQ(base.samples, 4);
  EXPECT_EQ(base.median, 25);
  EXPECT_EQ(base.low, 18);    // 17.5
  EXPECT_EQ(base.high, 33);   // 32.5
  EXPECT_EQ(fix.median, 13);  // 12.5
  EXPECT_DOUBLE_EQ(base.ratio.value().median, 1);
  EXPECT_DOUBLE_EQ(fix.ratio.value().median, 0.5);
  EXPECT_FALSE(record.variants[2].timing) << "has not run";
}

TEST(Timing, AClockThatDriftsDoesNotTellOnTheRatio) {
  TrialRecord record = trial();
  std::vector<StepTimes> repetitions;
  for (const Ns slow : {1, 2, 10}) repetitions.push_back({{0, 100 * slow}, {0, 90 * slow}, {}});
  add_timing(record, repetitions);
  const auto ratio = record.variants[1].timing.value().ratio.value();
  EXPECT_DOUBLE_EQ(ratio.median, 0.9);
  EXPECT_DOUBLE_EQ(ratio.lowest, 0.9);
  EXPECT_DOUBLE_EQ(ratio.highest, 0.9);
}

TEST(Timing, TheRangeOfTheRatioIsThatOfTheRepetitions) {
  TrialRecord record = trial();
  add_timing(record, {{{0, 100}, {0, 50}, {}}, {{0, 100}, {0, 120}, {}}, {{0, 100}, {0, 80}, {}}});
  const auto ratio = record.variants[1].timing.value().ratio.value();
  EXPECT_DOUBLE_EQ(ratio.median, 0.8);
  EXPECT_DOUBLE_EQ(ratio.lowest, 0.5);
  EXPECT_DOUBLE_EQ(ratio.highest, 1.2);
}

TEST(Timing, NoRatioWithoutASecondStepOrABaseline) {
  TrialRecord record = trial();
  add_timing(record, {{{100}, {50}, {}}});
  EXPECT_FALSE(record.variants[0].timing);
  record.variants[0].role = Role::fixed;
  add_timing(record, {{{100, 100}, {50, 50}, {}}});
  EXPECT_EQ(record.variants[1].timing.value().median, 50);
  EXPECT_FALSE(record.variants[1].timing.value().ratio);
}

}  // namespace
}  // namespace tidemark
