#include "harness/run/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ranges>

#include "harness/testing/toy.h"

namespace tidemark {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Scenario> all() {
  auto scenario = testing::toy_scenario();
  scenario.sizes.push_back({"seed", {{"n", 4096}}, {Mode::shapes}});
  scenario.unfit = [](const Trial& trial) {
    return trial.ranks > 8 ? "runs on 1 to 8 ranks" : std::string();
  };
  return {scenario};
}

std::vector<PlannedTrial> planned(Request request) {
  return plan(request, all(), {"instant", "calibrated", "lagging"});
}

std::string refused(Request request) {
  if (request.ranks == 0) request.ranks = 4;
  try {
    planned(request);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// Size, mode, schedule and steps of each trial.
std::vector<std::string> in_short(const std::vector<PlannedTrial>& trials) {
  std::vector<std::string> all;
  for (const Trial& t : std::views::transform(trials, &PlannedTrial::trial))
    all.push_back(t.size + " " + name_of(t.mode) + " " + t.schedule + " " +
                  std::to_string(t.steps));
  return all;
}

TEST(Plan, TheSmokeSuiteIsNumbersSmallAndMemoryLarge) {
  EXPECT_THAT(in_short(planned({.ranks = 4})),
              ElementsAre("smoke math instant 3", "smoke math calibrated 3", "smoke math lagging 3",
                          "seed shapes lagging 2"));
  EXPECT_EQ(planned({.ranks = 4})[0].variants.size(), 3u);
  EXPECT_EQ(planned({.schedule = "all", .ranks = 4}).size(), 6u);
  EXPECT_EQ(planned({.mode = "math", .ranks = 4}).size(), 3u);  // the seed's size has no numbers
}

TEST(Plan, TheNightlySuiteHasLossCurvesUnderOneSchedule) {
  EXPECT_THAT(
      in_short(planned({.suite = "nightly", .ranks = 4})),
      ElementsAre("smoke math instant 100", "smoke math calibrated 4", "smoke math lagging 4",
                  "seed shapes calibrated 2", "seed shapes lagging 2"));
  EXPECT_THAT(in_short(planned({.suite = "nightly", .schedule = "lagging", .ranks = 4})),
              ElementsAre("smoke math lagging 100", "seed shapes lagging 2"));
}

TEST(Plan, TheNightlySuitesLossesHaveASizeOfTheirOwnWhereTheScenarioHasOne) {
  auto scenarios = all();
  scenarios[0].sizes.push_back({"losses", {{"n", 8}}, {Mode::math}});
  const auto schedules = std::vector<std::string>{"instant", "calibrated", "lagging"};
  EXPECT_THAT(
      in_short(plan({.suite = "nightly", .ranks = 4}, scenarios, schedules)),
      ElementsAre("losses math instant 100", "smoke math instant 4", "smoke math calibrated 4",
                  "smoke math lagging 4", "seed shapes calibrated 2", "seed shapes lagging 2"));
}

TEST(Plan, ASizeMayFollowTheRanks) {
  auto scenarios = all();
  scenarios[0].sizes.front().on_ranks = [](int ranks) { return Params{{"n", 100 + ranks}}; };
  const auto n = [&](const Request& request) {
    return plan(request, scenarios, {"instant"}).front().trial["n"];
  };
  EXPECT_EQ(n({.size = "smoke", .ranks = 2}), 102);
  EXPECT_EQ(n({.size = "smoke", .ranks = 7}), 107);
  EXPECT_EQ(n({.size = "smoke", .set = {"n=5"}, .ranks = 7}), 5);
}

TEST(Plan, TheBaselineComesWithEveryVariant) {
  auto trials =
      planned({.patterns = {"toy/drop"}, .size = "smoke", .schedule = "lagging", .ranks = 2});
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(trials[0].variants, (std::vector<std::string>{"keep", "drop"}));
}

TEST(Plan, PatternsNameSizes) {
  EXPECT_THAT(in_short(planned({.patterns = {"t*/*/seed"}, .schedule = "instant", .ranks = 1})),
              ElementsAre("seed shapes instant 4"));
}

TEST(Plan, ParametersAreOverridden) {
  auto trials = planned({.set = {"n=77"}, .ranks = 1});
  EXPECT_EQ(trials[0].trial["n"], 77);
}

TEST(Plan, ErrorsNameTheValidValues) {
  EXPECT_THAT(refused({.patterns = {"toi"}}), HasSubstr("there are: toy"));
  EXPECT_THAT(refused({.patterns = {"toy/dorp"}}), HasSubstr("there are: keep, drop, keep_too"));
  EXPECT_THAT(refused({.patterns = {"toy/drop/big"}}), HasSubstr("there are: smoke, seed"));
  EXPECT_THAT(refused({.patterns = {"a/b/c/d"}}), HasSubstr("scenario/variant/size"));
  EXPECT_THAT(refused({.suite = "weekly"}), HasSubstr("smoke, nightly, scale"));
  EXPECT_THAT(refused({.size = "huge"}), HasSubstr("there are: smoke, seed"));
  EXPECT_THAT(refused({.mode = "maths"}), HasSubstr("math, shapes"));
  EXPECT_THAT(refused({.size = "seed", .mode = "math"}), HasSubstr("does not run in mode math"));
  EXPECT_THAT(refused({.schedule = "slow"}),
              HasSubstr("instant, calibrated, lagging, random, all"));
  EXPECT_THAT(refused({.set = {"m=1"}}), HasSubstr("no parameter 'm' (there are: n)"));
  EXPECT_THAT(refused({.set = {"n"}}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(refused({.set = {"n=1x"}}), HasSubstr("not a whole number"));
  EXPECT_THAT(refused({.set = {"n=99999999999999999999"}}), HasSubstr("not a whole number"));
  EXPECT_THAT(refused({.set = {"n=0"}}), HasSubstr("from 1 to 32768"));
  EXPECT_THAT(refused({.ranks = 9}), HasSubstr("runs on 1 to 8 ranks"));
  EXPECT_THAT(refused({.ranks = -1}), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(refused({.ranks = 1, .steps = 1}), HasSubstr("from 2"));
}

TEST(Plan, AGlobThatMatchesNothingSelectsNothing) {
  EXPECT_THROW(planned({.patterns = {"x*"}, .ranks = 1}), NothingSelected);
  EXPECT_THROW(planned({.patterns = {"toy/x*"}, .ranks = 1}), NothingSelected);
  EXPECT_THROW(plan({.ranks = 1}, {}, {"instant"}), std::logic_error);
}

}  // namespace
}  // namespace tidemark
