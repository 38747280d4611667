// The judge of two curves with noise, case by case.
#include "reports/curves/noise.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "reports/curves/parity.h"
#include "reports/curves/student.h"
#include "reports/curves/testing/drawn_curves.h"

namespace tidemark {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Student, QuantilesOfTheTables) {
  // Of two sides; Abramowitz and Stegun, table 26.10, and by arctan and the square root for 1
  // and 2.
  EXPECT_NEAR(student_quantile(0.05, 1), 12.706204736, 1e-8);
  EXPECT_NEAR(student_quantile(0.01, 2), 9.924843201, 1e-8);
  EXPECT_NEAR(student_quantile(0.001, 10), 4.586893859, 1e-8);
  EXPECT_NEAR(student_quantile(0.05, 1e6), 1.959966, 1e-5);
  EXPECT_NEAR(student_quantile(1e-9, 2) / std::sqrt(1e9), 1, 1e-6);  // (1 - p) sqrt(2 / p (2 - p))
  EXPECT_NEAR(normal_quantile(0.05), 1.959963985, 1e-8);
  EXPECT_NEAR(student_tail(student_quantile(1e-12, 42), 42) / 1e-12, 1, 1e-6);
}

// A step later is another pair of curves: what does not move with them is no step.
CurveParity judged(const std::vector<double>& a, const std::vector<double>& b) {
  return parity(logged(a, 0), logged(b, 0), {}, true);
}

TEST(Noise, WhatIsFoundIsSaid) {
  Drawn drawn(1);
  const auto level = drawn.decay(1000);
  const auto noise = drawn.noise(1000);
  const auto a = sum(level, 0.02, noise);
  auto b = a;
  for (std::size_t t = 200; t < b.size(); ++t) b[t] += 0.0025;
  const CurveParity bias = judged(a, b);
  EXPECT_FALSE(bias.holds({}));
  EXPECT_EQ(bias.first_step(), 201);
  EXPECT_THAT(verdict_text(bias, {}), ::testing::StartsWith("B is above A by 0.0025 +- "));
  EXPECT_THAT(verdict_text(bias, {}), HasSubstr("from step 201 on: not noise"));
  EXPECT_EQ(bias.noise->windows.size(), 64u);
  EXPECT_EQ(bias.noise->band.size(), 1000u);

  const CurveParity other = judged(a, sum(a, 0.001, drawn.noise(1000)));
  EXPECT_TRUE(other.holds({}));
  EXPECT_THAT(verdict_text(other, {}), ::testing::StartsWith("B is A but for noise: on average"));
  EXPECT_THAT(verdict_text(judged(a, a), {}), "B is A bit for bit at 1,000 common steps");

  b = a;
  b[699] -= 1;
  EXPECT_THAT(verdict_text(judged(a, b), {}), HasSubstr("below A by 1, "));
  EXPECT_THAT(verdict_text(judged(a, b), {}), HasSubstr("at step 700 alone: not noise"));
  for (std::size_t t = 300; t < 400; ++t) b[t] += 0.01;
  EXPECT_THAT(verdict_text(judged(a, b), {}), HasSubstr("from step 301 to step 400: not noise; "
                                                        "outside of these, 1 single steps differ"));
}

TEST(Noise, WhatIsNoNumberHasDiverged) {
  const auto a = Drawn(2).decay(100);
  auto b = a, c = a;
  for (std::size_t t = 60; t < 100; ++t) b[t] = c[t] = NAN;
  EXPECT_EQ(verdict_text(judged(b, c), {}),
            "neither curve is a number from step 61 on: both have diverged");
  EXPECT_FALSE(judged(b, c).holds({}));
  EXPECT_THAT(verdict_text(judged(a, b), {}),
              HasSubstr("B is no number at step 61 (nan) where A is"));
  EXPECT_FALSE(judged(a, b).holds({}));
  EXPECT_EQ(judged(a, b).first_step(), 61);
  c[40] = NAN;
  EXPECT_THAT(verdict_text(judged(c, b), {}),
              HasSubstr("A is no number at step 41 (nan) where B is"));
}

TEST(Noise, FewStepsAreJudgedByTheirBits) {
  EXPECT_TRUE(judged({1, 2, 3}, {1, 2, 3}).holds({}));
  EXPECT_FALSE(judged({1, 2, 3}, {1, 2, 3.001}).holds({}));
  EXPECT_THAT(verdict_text(judged({1, 2, 3}, {1, 2, 3.001}), {}),
              HasSubstr("other bits than A from step 3 on"));
}

// A log of three digits, at a level between two of its values.
TEST(Noise, RoundingOfALogIsNoDifference) {
  std::vector<double> a(400), b(400);
  Drawn drawn(3);
  for (std::size_t t = 0; t < a.size(); ++t) {
    const double level = 9 + 4 * std::exp(-static_cast<double>(t) / 20);
    a[t] = std::round((level + 0.0449 + 1e-4 * drawn.uniform(-1, 1)) * 10) / 10;
    b[t] = std::round((level + 0.0451 + 1e-4 * drawn.uniform(-1, 1)) * 10) / 10;
  }
  EXPECT_TRUE(judged(a, b).holds({})) << verdict_text(judged(a, b), {});
}

// Noise of a third of the last digit: most neighbours have equal digits, so that the median of
// their differences is none, and what rounding hides has to be added.
TEST(Noise, NoiseThatRoundingHidesIsNoDifference) {
  constexpr int kPairs = 100;
  int alarms = 0;
  for (int i = 0; i < kPairs; ++i) {
    Drawn drawn(seed() * 1000003 + static_cast<std::uint64_t>(i));
    std::normal_distribution<double> normal;
    const double off = drawn.uniform(0, 1);
    std::vector<double> a(500), b(500);
    for (std::size_t t = 0; t < a.size(); ++t) {
      const double level = 9 + off + 400 * std::exp(-static_cast<double>(t) / 20);
      a[t] = std::round(level + 0.3 * normal(drawn.random()));
      b[t] = std::round(level + 0.3 * normal(drawn.random()));
    }
    alarms += judged(a, b).noise->differs();
  }
  EXPECT_LE(alarms, most_alarms(kPairs));
}

// Of 2,000 normal steps the outermost sixteenth begins at 1.86 and lies 0.41 beyond it on average:
// 1.86 + 0.41 * (1 + 3 / sqrt(94)) * log(125 / 0.005) = 7.3. The noise near a step is known from 64
// differences to a quarter. A limit below the normal quantile would be none.
TEST(Noise, TheLimitOfASingleStepIsThatOfItsTail) {
  constexpr std::size_t kSteps = 2000;
  constexpr double kLimit = 7.3;
  double sum = 0, least = kLimit;
  constexpr int kPairs = 12;
  for (int i = 0; i < kPairs; ++i) {
    Drawn drawn(static_cast<std::uint64_t>(100 + i));
    std::normal_distribution<double> normal;
    const auto a = drawn.decay(kSteps);
    auto b = a;
    for (double& value : b) value += 0.01 * normal(drawn.random());
    const double limit = judged(a, b).noise->spike_times;
    sum += limit, least = std::min(least, limit);
  }
  EXPECT_GE(least, normal_quantile(kFalseAlarm / 2 / kSteps));
  EXPECT_NEAR(sum / kPairs, kLimit, kLimit / 4);
}

// Noise that is correlated over a few windows: means of single windows vary less than those of
// groups of them, and a stretch has to be beyond the quantile of each.
TEST(Noise, NoiseThatIsCorrelatedForLongIsNoDifference) {
  constexpr std::size_t kSteps = 2000;
  constexpr double kRho = 0.97;
  constexpr int kPairs = 40;
  int alarms = 0;
  for (int i = 0; i < kPairs; ++i) {
    Drawn drawn(seed() * 1000003 + static_cast<std::uint64_t>(i));
    std::normal_distribution<double> normal;
    const auto level = drawn.decay(kSteps);
    std::vector<double> runs[2] = {level, level};
    for (auto& run : runs) {
      double state = normal(drawn.random());
      for (double& value : run) {
        value += 0.02 * state;
        state = kRho * state + std::sqrt(1 - kRho * kRho) * normal(drawn.random());
      }
    }
    alarms += judged(runs[0], runs[1]).noise->differs();
  }
  EXPECT_LE(alarms, most_alarms(kPairs));
}

// Runs that each stay apart from the others by as much as a step varies: the runs of A show it.
TEST(Noise, WhatLastsInEachRunIsNoDifference) {
  constexpr int kPairs = 60;
  int alarms = 0;
  for (int i = 0; i < kPairs; ++i) {
    Drawn drawn(seed() * 1000003 + static_cast<std::uint64_t>(i));
    const auto level = drawn.decay(300);
    std::vector<Curve> all;
    for (int run = 0; run < 5; ++run) all.push_back(logged(slow_run(drawn, level, 0.01, 0.01), 0));
    const CurveParity c = parity(all[0], all[1], {}, false, {&all[2], &all[3], &all[4]});
    alarms += c.noise->differs();
  }
  EXPECT_LE(alarms, most_alarms(kPairs));
}

}  // namespace
}  // namespace tidemark
