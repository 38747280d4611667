#include "harness/run/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ranges>

#include "harness/testing/refusal.h"
#include "harness/testing/toy.h"

namespace tidemark {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Scenario> all() {
  auto scenario = testing::toy_scenario();
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
  scenarios[0].sizes.push_back({"losses", {{"n", 8}, {"rows", 1}}, {Mode::math}});
  const auto schedules = std::vector<std::string>{"instant", "calibrated", "lagging"};
  EXPECT_THAT(
      in_short(plan({.suite = "nightly", .ranks = 4}, scenarios, schedules)),
      ElementsAre("losses math instant 100", "smoke math instant 4", "smoke math calibrated 4",
                  "smoke math lagging 4", "seed shapes calibrated 2", "seed shapes lagging 2"));
}

TEST(Plan, AScenarioIsRegisteredWhereItSaysWhereItWasSeen) {
  EXPECT_EQ(registered(all()).size(), 1u);
  EXPECT_EQ(all()[0].seen[0].name, "own");
  EXPECT_EQ(all()[0].seen[0].link, "");
  const auto refused = [](auto change) {
    auto scenarios = all();
    change(scenarios[0]);
    return refusal<std::logic_error>([&] { registered(scenarios); });
  };
  EXPECT_THAT(refused([](Scenario& s) { s.seen.clear(); }),
              HasSubstr("scenario toy does not say where its waste was seen"));
  const auto figure = [&](const char* source, const char* from, const char* to, Params params) {
    return refused([&](Scenario& s) {
      s.published = {{{source, "a model", "10 %", from, to}, std::move(params)}};
    });
  };
  EXPECT_EQ(figure("own", "copy", "in_place", {{"n", 1}}), kNothingRefused);
  EXPECT_THAT(figure("own", "copy", "dorp", {}), HasSubstr("'dorp', which is no variant"));
  EXPECT_THAT(figure("own", "kept", "in_place", {}), HasSubstr("'kept', which is no variant"));
  EXPECT_THAT(figure("a#1", "copy", "in_place", {}),
              HasSubstr("'a#1', which is none of its sources"));
  EXPECT_THAT(figure("own", "copy", "in_place", {{"m", 1}}),
              HasSubstr("'m', which is no parameter"));
}

TEST(Plan, ASourceIsNamedAndLinkedByItsNumber) {
  EXPECT_EQ(issue("a/b", 12, "x"), (Source{"a/b#12", "https://github.com/a/b/issues/12", "x"}));
  EXPECT_EQ(pull_request("a/b", 3, "x"), (Source{"a/b#3", "https://github.com/a/b/pull/3", "x"}));
}

TEST(Plan, TheNightlySuiteHasTheSizesThatAskForIt) {
  auto scenarios = all();
  scenarios[0].sizes.push_back({.name = "own", .params = {{"n", 8}}, .modes = {Mode::math}});
  const auto pieces = [&](const char* suite) {
    return in_short(plan({.suite = suite, .ranks = 4}, scenarios, {"instant", "lagging"}));
  };
  EXPECT_THAT(pieces("nightly"), Not(Contains("own math instant 3")));
  scenarios[0].sizes.back().nightly = true;
  EXPECT_THAT(pieces("nightly"), Contains("own math instant 3"));
  EXPECT_THAT(pieces("smoke"), Not(Contains("own math instant 3")));
}

TEST(Plan, SizesOfASuiteBesidesTheUsualOnes) {
  auto scenarios = all();
  scenarios[0].sizes.back().steps = 4;  // seed
  scenarios[0].sizes.push_back(
      {.name = "other", .params = {{"n", 8}}, .modes = {Mode::math}, .smoke = true});
  scenarios[0].sizes.push_back(
      {.name = "large", .params = {{"n", 9}}, .modes = {Mode::shapes}, .nightly = true});
  const auto planned = [&](const Request& request) {
    return in_short(plan(request, scenarios, {"instant", "lagging"}));
  };
  EXPECT_THAT(planned({.ranks = 4}), ElementsAre("smoke math instant 3", "smoke math lagging 3",
                                                 "other math instant 2", "seed shapes lagging 4"));
  EXPECT_THAT(
      planned({.suite = "nightly", .ranks = 4}),
      ElementsAre("smoke math instant 100", "smoke math lagging 4", "large shapes instant 3",
                  "other math instant 2", "seed shapes lagging 4"));
  EXPECT_THAT(planned({.ranks = 4, .steps = 2})[3], HasSubstr("seed shapes lagging 2"));
}

TEST(Plan, ASizeMayFollowTheRanks) {
  auto scenarios = all();
  scenarios[0].sizes.front().on_ranks = [](int ranks) {
    return Params{{"n", 100 + ranks}, {"rows", 1}};
  };
  const auto n = [&](const Request& request) {
    return plan(request, scenarios, {"instant"}).front().trial["n"];
  };
  EXPECT_EQ(n({.size = "smoke", .ranks = 2}), 102);
  EXPECT_EQ(n({.size = "smoke", .ranks = 7}), 107);
  EXPECT_EQ(n({.size = "smoke", .set = {"n=5"}, .ranks = 7}), 5);
}

TEST(Plan, TheBaselineComesWithEveryVariant) {
  auto trials =
      planned({.patterns = {"toy/in_place"}, .size = "smoke", .schedule = "lagging", .ranks = 2});
  ASSERT_EQ(trials.size(), 1u);
  EXPECT_EQ(trials[0].variants, (std::vector<std::string>{"copy", "in_place"}));
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
  EXPECT_THAT(refused({.patterns = {"toy/in_palce"}}),
              HasSubstr("there are: copy, in_place, of_a_copy"));
  EXPECT_THAT(refused({.patterns = {"toy/in_place/big"}}), HasSubstr("there are: smoke, seed"));
  EXPECT_THAT(refused({.patterns = {"a/b/c/d"}}), HasSubstr("scenario/variant/size"));
  EXPECT_THAT(refused({.suite = "weekly"}), HasSubstr("smoke, nightly, scale"));
  EXPECT_THAT(refused({.size = "huge"}), HasSubstr("there are: smoke, seed"));
  EXPECT_THAT(refused({.mode = "maths"}), HasSubstr("math, shapes"));
  EXPECT_THAT(refused({.size = "seed", .mode = "math"}), HasSubstr("does not run in mode math"));
  EXPECT_THAT(refused({.schedule = "slow"}),
              HasSubstr("instant, calibrated, lagging, random, all"));
  EXPECT_THAT(refused({.set = {"m=1"}}), HasSubstr("no parameter 'm' (there are: n, rows)"));
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
