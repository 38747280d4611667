// One definition of the saving: the peak of a step on the worst rank, in the scenario's statistic.
#include "reports/saving.h"

#include <gmock/gmock.h>

#include "reports/renderings.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Lagging, with another phase that is higher, on another rank.
TrialRecord lagging() {
  TrialRecord trial = small_report().trials[1];
  RankRecord& rank = trial.variants[0].ranks[1];
  rank.steps.back().phases.push_back(rank.steps.back().phases[0]);
  rank.steps.back().phases[1].name = "backward";
  rank.steps.back().phases[1][Statistic::active].peak = 12 * kMiB;
  return trial;
}

Verdict step(Status status, double predicted) {
  Verdict verdict{.name = "saving/step", .variant = "stash", .status = status};
  verdict.low = verdict.high = predicted;
  return verdict;
}

TEST(Saving, IsOfTheStepsPeakOnTheWorstRankInTheScenariosStatistic) {
  TrialRecord trial = lagging();
  ASSERT_EQ(savings_of(trial).size(), 1u);
  Saving saving = savings_of(trial)[0];
  EXPECT_EQ(saving.baseline, "record_stream");
  EXPECT_EQ(saving.before, 12 * kMiB);
  EXPECT_EQ(saving.after, 5 * kMiB);
  trial.statistic = Statistic::reserved;
  EXPECT_EQ(savings_of(trial)[0].saved(), 0);
}

TEST(Saving, HasItsPriceBesideIt) {
  TrialRecord trial = lagging();
  VariantRecord& fix = trial.variants[1];
  fix.step_time_ns = {9'000'000, 5'000'000};
  // The first step's are not those of a step.
  fix.ranks[1].counters.collectives = {{"all_gather", 60}, {"broadcast", 1}};
  const std::int64_t of_base = trial.variants[0].ranks[1].steps.back().collectives["all_gather"];
  fix.ranks[1].steps.back().collectives = {{"all_gather", of_base + 2}, {"reduce_scatter", 1}};
  trial.verdicts.push_back({.name = "cost/recomputed_blocks", .variant = "stash"});
  trial.verdicts.back().measured = 1;
  const Saving saving = savings_of(trial)[0];
  EXPECT_DOUBLE_EQ(*saving.time_ratio, 1.25);
  EXPECT_EQ(
      price_text(saving),
      "1.250x step time by the model, +2 all_gather a step, +1 reduce_scatter a step, 1 block "
      "recomputed");
}

TEST(Saving, IsTheSameOnTheTerminalAndInTheSummary) {
  Report report = small_report();
  report.trials[1] = lagging();
  const auto table = result_of(overviews(report)[0]);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->title,
            "active memory at its highest in a step, worst rank, MiB, under lagging, against "
            "record_stream");
  EXPECT_THAT(table->rows[0], ElementsAre("stash", "12.00 -> 5.00", "7.00 (58 %), not judged",
                                          "1.000x step time by the model"));
  EXPECT_THAT(text_of(report), HasSubstr("stash  12.00 -> 5.00  saves 7.00 (58 %)"));
  EXPECT_THAT(markdown(report),
              HasSubstr("| stash | 12.00 -&gt; 5.00 | 7.00 (58 %), not judged |"));
}

TEST(Saving, OfGibibytesIsInThem) {
  Report report = small_report();
  for (TrialRecord& trial : report.trials)
    for (VariantRecord& variant : trial.variants)
      for (RankRecord& rank : variant.ranks)
        rank.steps[0].phases[0][Statistic::active].peak *= 1024;
  EXPECT_EQ(result_of(overviews(report)[0])->rows[0][1], "9.00 -> 5.00");
  EXPECT_THAT(result_of(overviews(report)[0])->title, HasSubstr("GiB"));
}

TEST(Saving, ThatIsNotPredictedIsSaidToBeNone) {
  Report report = small_report();
  report.trials.erase(report.trials.begin());
  TrialRecord& trial = report.trials[0];
  trial.verdicts.push_back(step(Status::pass, 0));
  trial.variants[1].ranks[0].steps[0].phases[0][Statistic::active].peak = 9 * kMiB;
  EXPECT_EQ(result_of(overviews(report)[0])->rows[0][2], "no saving predicted");
  trial.variants[1].ranks[0].steps[0].phases[0][Statistic::active].peak = 8 * kMiB;
  trial.verdicts.back().status = Status::fail;
  EXPECT_EQ(result_of(overviews(report)[0])->rows[0][2], "1.00 (11 %), not as predicted");
  // Predicted, and not there.
  trial.verdicts.back() = step(Status::fail, kMiB);
  trial.variants[1].ranks[0].steps[0].phases[0][Statistic::active].peak = 9 * kMiB;
  EXPECT_EQ(result_of(overviews(report)[0])->rows[0][2], "0.00 (0.00 %), not as predicted");
}

TEST(Saving, WithoutABaselineIsNotJudged) {
  Report report = small_report();
  report.trials.erase(report.trials.begin());
  report.trials[0].variants[0].ranks.clear();
  report.trials[0].variants[0].error = "out of memory";
  const auto table = result_of(overviews(report)[0]);
  ASSERT_TRUE(table);
  EXPECT_THAT(table->rows[0], ElementsAre("stash", "- -> 5.00", "not judged: no baseline ran", ""));
  EXPECT_THAT(table->title, Not(HasSubstr("against")));
}

}  // namespace
}  // namespace tidemark
