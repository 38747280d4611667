// Changes: which count, in which direction they are bad, and their order.
#include "reports/compare/compare.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>

#include "harness/record/units.h"
#include "reports/compare/kinds_changed.h"
#include "reports/compare/render.h"
#include "reports/compare/testing.h"
#include "reports/saving.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST_F(Compare, AReportAndItselfDoNotDiffer) {
  for (const Report& report : {small_report(), sample_report(2), hostile_report()}) {
    const Comparison c = compared(report, report);
    EXPECT_TRUE(c.same());
    EXPECT_EQ(c.exit_code(), 0);
    EXPECT_GT(c.comparisons(), 4);
    EXPECT_THAT(comparison_summary(c), HasSubstr("no difference (the same run)"));
    EXPECT_THAT(comparison_text(c, {"a", report}, {"b", report}),
                HasSubstr("note: BASE and NEW are the same run"));
    EXPECT_THAT(comparison_markdown(c, {"a", report}, {"b", report}), HasSubstr("the same run"));
  }
  Report again = small_report();
  again.run.id = "another";
  EXPECT_THAT(comparison_summary(compared(small_report(), again)),
              testing::EndsWith("no difference"));
}

TEST_F(Compare, ThePageOfAReportHasTheResultOfCompare) {
  const Report base = small_report();
  Report fresh = base;
  fresh.run.id = "tonight";
  fresh.trials[0].variants[1].ranks[0].steps.back().phases.back()[Statistic::reserved].peak += 1;
  const Comparison c = compared(base, fresh);
  const Changes changes = changes_of(c, {"a", base}, {"b", fresh});
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_EQ(changes.status, Status::fail);
  EXPECT_EQ(changes.result, plural(c.regressions(), "regression"));
  EXPECT_EQ(changes.summary, comparison_summary(c));
  Report other = base;
  for (TrialRecord& trial : other.trials) trial.seed += 1;
  const Changes none = changes_of(compared(base, other, {}, true), {"a", base}, {"b", other});
  EXPECT_EQ(none.status, Status::skip) << "nothing in common is not green";
  EXPECT_EQ(none.result, "nothing was compared");
}

TEST_F(Compare, CountsTheVerdictsThatTheReportCounts) {
  const Report report = sample_report(2);
  std::int64_t verdicts = 0;
  for (const TrialRecord& trial : report.trials)
    verdicts += static_cast<std::int64_t>(trial.verdicts.size());
  EXPECT_EQ(compared(report, report).verdicts, verdicts);
}

TEST_F(Compare, MoreMemoryIsARegressionAndLessAnImprovement) {
  forward(fresh)[Statistic::active].peak += 512;
  const Comparison c = compared(base, fresh);
  ASSERT_EQ(c.changes.size(), 1u);
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_EQ(c.changes[0].metric, "memory/active/forward");
  EXPECT_EQ(c.changes[0].place.variant, "stash");
  EXPECT_EQ(c.changes[0].place.ranks, std::vector{0});
  EXPECT_EQ(*c.changes[0].after - *c.changes[0].before, 512);
  const Comparison back = compared(fresh, base);
  EXPECT_EQ(back.exit_code(), 0);
  EXPECT_EQ(back.count(Effect::improvement), 1);
}

TEST_F(Compare, AWaterfallOfCategoriesSumsToTheChangeOfAScenariosPeak) {
  Report before = small_report(), after = before;
  for (Report* each : {&before, &after})
    for (TrialRecord& trial : each->trials) trial.statistic = Statistic::active;
  TrialRecord& trial = after.trials[0];
  VariantRecord& grown = trial.variants[1];
  for (RankRecord& rank : grown.ranks) {
    rank.categories[MemoryKind::activations].peak_share += 3 * kMiB;
    rank.categories[MemoryKind::parameters].peak_share -= kMiB;
    for (Step& step : rank.steps)
      for (Phase& phase : step.phases) phase.levels[1].peak += 7 * kMiB;
  }
  const std::vector<Section> sections = kinds_changed(before, after, 9);
  ASSERT_EQ(sections.size(), 1u) << "the largest change of the scenario";
  EXPECT_THAT(sections[0].title,
              testing::HasSubstr(trial.name() + " " + grown.name + ": peak of active: "));
  std::map<std::string, Bytes> parts;  // by the names of the bars, without those of both peaks
  std::vector<Bytes> bars;
  const std::string& markup = sections[0].pictures.at(0).markup;
  const std::regex bar("stack-name\">([^<]*)<.*value=\"(-?[0-9]+)\"");
  for (auto at = std::sregex_iterator(markup.begin(), markup.end(), bar);
       at != std::sregex_iterator(); ++at)
    bars.push_back(parts[(*at)[1]] = std::stoll((*at)[2]));
  ASSERT_GT(bars.size(), 4u);
  EXPECT_EQ(std::accumulate(bars.begin(), bars.end() - 1, Bytes{0}), bars.back());
  EXPECT_EQ(bars.back(), worst_peak(grown, Statistic::active));
  EXPECT_EQ(parts["activations"], 3 * kMiB);
  EXPECT_EQ(parts["parameters"], -kMiB);
  EXPECT_EQ(parts["freed, held for another stream"], 5 * kMiB) << "what active has beyond";
  EXPECT_EQ(sections[0].rows[0].size(), 2u) << "no columns of modules and lines";
  EXPECT_TRUE(kinds_changed(before, before, 9).empty());
  const Side a{"a", before}, b{"b", after};
  EXPECT_THAT(comparison_markdown(compare(before, after, {}), a, b),
              testing::HasSubstr("| +3,145,728 | activations |"));
}

TEST_F(Compare, RanksWithTheSameChangeAreOneLineWithTheWorst) {
  forward(fresh, 1, 0)[Statistic::active].peak += 512;
  forward(fresh, 1, 1)[Statistic::active].peak += 1024;
  const Comparison c = compared(base, fresh);
  ASSERT_EQ(c.changes.size(), 1u);
  EXPECT_EQ(c.changes[0].place.ranks, (std::vector{0, 1}));
  EXPECT_EQ(c.changes[0].rank, 1);
  EXPECT_THAT(sentence(c.changes[0]), HasSubstr("ranks 0-1"));
  EXPECT_THAT(sentence(c.changes[0]), HasSubstr("(+1,024"));
}

TEST_F(Compare, AnyStepCounts) {
  auto& steps = base.trials[0].variants[1].ranks[0].steps;
  steps.assign(3, steps[0]);
  fresh = base;
  fresh.trials[0].variants[1].ranks[0].steps[1].phases[0][Statistic::reserved].peak += 1;
  const Comparison c = compared(base, fresh);
  ASSERT_EQ(c.changes.size(), 1u);
  EXPECT_EQ(c.changes[0].step, 1);
}

TEST_F(Compare, ThresholdsByKindAndByName) {
  for (Ns& t : fresh.trials[0].variants[0].step_time_ns) t += t / 25;  // 4 %
  forward(fresh)[Statistic::active].peak += 512;
  EXPECT_EQ(compared(base, fresh).count(Effect::regression), 1);
  EXPECT_EQ(compared(base, fresh).within, 1);
  EXPECT_EQ(compared(base, fresh, {"time=3%"}).count(Effect::regression), 2);
  EXPECT_EQ(compared(base, fresh, {"memory=512"}).exit_code(), 0);
  EXPECT_EQ(compared(base, fresh, {"memory=511"}).exit_code(), 1);
  EXPECT_EQ(compared(base, fresh, {"memory/active/*=1KiB"}).exit_code(), 0);
  EXPECT_EQ(compared(base, fresh, {"memory/allocated/*=1KiB"}).exit_code(), 1);
  EXPECT_EQ(compared(base, fresh, {"memory=1KiB", "memory/*=0"}).exit_code(), 1)
      << "the last one wins";
  EXPECT_THAT(compared(base, fresh, {"nosuch/*=1"}).unmatched, Contains("nosuch/*=1"));
  for (const char* bad : {"memory", "=1", "memory=", "memory=-1", "memory=nan", "memory=inf",
                          "memory=1 parsec", "memroy=0", "memory=1%%", "memory=-0"})
    EXPECT_THROW(parse_threshold(bad), std::runtime_error) << bad;
  EXPECT_EQ(parse_threshold("time=2.5us").value, 2500);
  for (const auto& [text, value] : {std::pair("3ns", 3.0),
                                    {"3us", 3e3},
                                    {"3ms", 3e6},
                                    {"3s", 3e9},
                                    {"3B", 3.0},
                                    {"3", 3.0},
                                    {"3KiB", 3072.0},
                                    {"3MiB", 3145728.0},
                                    {"3GiB", 3221225472.0},
                                    {"3%", 0.03}})
    EXPECT_EQ(parse_threshold(std::string("memory=") + text).value, value) << text;
}

TEST_F(Compare, PercentOfNothingIsExceededByAnything) {
  fresh.trials[0].variants[0].ranks[0].counters.num_ooms = 1;
  EXPECT_EQ(compared(base, fresh, {"counters=50%"}).exit_code(), 1);
  EXPECT_EQ(compared(base, base, {"counters=50%"}).exit_code(), 0);
}

TEST_F(Compare, AFailedVerdictComesBeforeEveryMetric) {
  Verdict& v = fresh.trials[0].verdicts[1];
  v.status = Status::fail;
  v.measured = *v.measured + 4096;
  forward(fresh)[Statistic::active].peak += 4096;
  fresh.trials[0].variants[0].ranks[0].counters.launches += 1000000;
  const Comparison c = compared(base, fresh);
  ASSERT_EQ(c.turns.size(), 1u);
  EXPECT_EQ(c.turns[0].before, "pass");
  EXPECT_EQ(c.turns[0].after, "fail");
  const std::string text = comparison_text(c, {"a", base}, {"b", fresh});
  const auto verdict = text.find("pass -> fail"), memory = text.find("(+4,096"),
             counter = text.find("counters/launches", memory);
  EXPECT_LT(verdict, memory);
  EXPECT_LT(memory, counter);
  EXPECT_NE(counter, std::string::npos);
  EXPECT_EQ(compared(fresh, base).count(Effect::improvement), 3);
}

TEST_F(Compare, TheLargestRegressionFirst) {
  base = fresh = sample_report(2);
  int nth = 0;
  for (TrialRecord& trial : fresh.trials)
    for (VariantRecord& variant : trial.variants)
      for (RankRecord& rank : variant.ranks)
        if (!rank.steps.empty())
          rank.steps[0].phases[0][Statistic::active].peak += ++nth % 7 * 4096;
  auto& culprit = fresh.trials[4].variants[2];
  for (RankRecord& rank : culprit.ranks) rank.steps[0].phases[1][Statistic::active].peak *= 2;
  const Comparison c = compared(base, fresh);
  ASSERT_GT(c.changes.size(), 5u);
  EXPECT_EQ(c.changes[0].place.variant, culprit.name);
  EXPECT_EQ(c.changes[0].metric, "memory/active/" + culprit.ranks[0].steps[0].phases[1].name);
  for (std::size_t i = 1; i < c.changes.size(); ++i)
    if (c.changes[i].effect == Effect::regression) {
      EXPECT_GE(*c.changes[i - 1].after - *c.changes[i - 1].before,
                *c.changes[i].after - *c.changes[i].before)
          << "by bytes, not by their share";
    }
}

TEST_F(Compare, OfAControlOnlyTheVerdictsJudge) {
  base.trials[0].variants[1].role = Role::control;
  fresh = base;
  forward(fresh)[Statistic::active].peak += 512;
  const Comparison c = compared(base, fresh);
  EXPECT_EQ(c.exit_code(), 0);
  EXPECT_EQ(c.count(Effect::changed), 1);
}

TEST_F(Compare, ALossThatDiffersInOneBitIsARegressionWhicheverWay) {
  for (double to :
       {std::nextafter(1.0 / 3, 1), std::nextafter(1.0 / 3, 0), double(NAN), HUGE_VAL}) {
    fresh = base;
    fresh.trials[0].variants[0].loss[1].value = to;
    const Comparison c = compared(base, fresh);
    EXPECT_EQ(c.exit_code(), 1) << to;
    ASSERT_EQ(c.changes.size(), 1u);
    EXPECT_EQ(c.changes[0].step, 1);
    EXPECT_EQ(compared(base, fresh, {"loss=1e-9"}).exit_code(), std::isfinite(to) ? 0 : 1) << to;
  }
  Report nans = base;
  nans.trials[0].variants[0].loss[1].value = NAN;
  EXPECT_TRUE(compared(nans, nans).same());
  EXPECT_EQ(compared(nans, base).count(Effect::improvement), 1);
  Report shorter = base;
  shorter.trials[0].variants[0].loss.pop_back();
  EXPECT_EQ(compared(base, shorter).exit_code(), 1);
}

TEST_F(Compare, SaysHowTheRunsWereMadeDifferently) {
  fresh.run.env["NCCL_ALGO"] = "Tree";
  fresh.run.argv = {"tidemark", "run", "--out", "x"};
  const Comparison c = compared(small_report(), fresh);
  EXPECT_THAT(c.differently, Contains("NCCL_ALGO: Ring -> Tree"));
  EXPECT_THAT(c.differently, Contains(HasSubstr("-> run")));
}

TEST_F(Compare, WhatEachRunHasOfItsOwnIsNoDifference) {
  for (Report* report : {&base, &fresh}) {
    const std::string own = report == &base ? "one" : "another";
    for (const char* variable : {"TIDEMARK_RUN_ID", "TIDEMARK_OUT", "TIDEMARK_TERMINAL",
                                 "TIDEMARK_SOCKET", "NCCL_COMM_ID"})
      report->run.env[variable] = own;
    report->run.id = own;
    report->run.argv = {"tidemark",
                        "exec",
                        "--report",
                        own,
                        "--force",
                        "--max-peak",
                        "1GiB",
                        "--",
                        "torchrun",
                        "--rdzv-id",
                        own,
                        "--rdzv_endpoint=h:" + own,
                        "train.py",
                        "--output_dir",
                        own + "/of/today",
                        "--batch",
                        "8"};
    if (report == &fresh)  // and a check more, and without a folder
      report->run.argv = {"tidemark",
                          "exec",
                          "--report",
                          "--no-retries",
                          "--compare=" + own,
                          "--",
                          "torchrun",
                          "--rdzv-id=" + own,
                          "--rdzv-endpoint",
                          own,
                          "train.py",
                          "--batch",
                          "8"};
  }
  EXPECT_EQ(compared(base, fresh).differently, std::vector<std::string>());
  fresh.run.argv.insert(fresh.run.argv.begin() + 2, {"--capacity", "1GiB"});
  fresh.run.argv.back() = "9";
  EXPECT_EQ(compared(base, fresh).differently,
            std::vector<std::string>{"arguments: exec -- torchrun train.py --batch 8 -> exec "
                                     "--capacity 1GiB -- torchrun train.py --batch 9"});
}

TEST_F(Compare, EveryRenderingHoldsTheChangeAndHostileNamesStayText) {
  base = fresh = hostile_report();
  for (Report* r : {&fresh})
    for (auto& v : r->trials[0].variants)
      v.error.clear(), forward(*r)[Statistic::active].peak = 77777777;
  Report clean = base;
  for (auto& v : clean.trials[0].variants) v.error.clear();
  const Comparison c = compared(clean, fresh);
  ASSERT_EQ(c.exit_code(), 1);
  const Side a{"<a>", clean}, b{"b", fresh};
  EXPECT_THAT(comparison_text(c, a, b), HasSubstr("77,777,777"));
  EXPECT_THAT(comparison_markdown(c, a, b), HasSubstr("77,777,777"));
  const std::string html = comparison_html(c, a, b);
  EXPECT_THAT(html, HasSubstr("77,777,777"));
  EXPECT_THAT(html, HasSubstr("<figure>"));
  EXPECT_THAT(html, HasSubstr("&lt;a&gt;"));
  EXPECT_EQ(html.find("<img"), std::string::npos);
  const auto json = nlohmann::json::parse(comparison_json(c, a, b));
  EXPECT_EQ(json["comparisons"], c.comparisons());
  EXPECT_EQ(json["metrics"][0]["after"], 77777777);
  EXPECT_EQ(json["summary"]["exit_code"], 1);
}

TEST_F(Compare, OneIsSingularEverywhere) {
  forward(fresh)[Statistic::active].peak += 512;
  const Comparison c = compared(base, fresh);
  const Side a{"a", base}, b{"b", fresh};
  for (const std::string& text :
       {comparison_text(c, a, b), comparison_markdown(c, a, b), comparison_html(c, a, b)}) {
    EXPECT_THAT(text, HasSubstr("1 regression"));
    EXPECT_THAT(text, testing::Not(HasSubstr("1 regressions")));
  }
}

TEST_F(Compare, AMillionVerdictsThatAllTurned) {
  base.trials.resize(1);
  const Verdict one = base.trials[0].verdicts[1];
  for (int i = 0; i < 100000; ++i) {
    base.trials[0].verdicts.push_back(one);
    base.trials[0].verdicts.back().name += std::to_string(i);
  }
  fresh = base;
  for (Verdict& v : fresh.trials[0].verdicts) v.status = Status::fail;
  const Comparison c = compared(base, fresh);
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_GT(c.comparisons(), 100000);
  EXPECT_LT(comparison_text(c, {"a", base}, {"b", fresh}).size(), 20000u);
}

}  // namespace
}  // namespace tidemark
