// Entries of one run alone: missing, new, lost, or broken.
#include <gmock/gmock.h>

#include "reports/compare/compare.h"
#include "reports/compare/render.h"
#include "reports/compare/testing.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST_F(Compare, MissingAndNewTrialsAreNamed) {
  fresh.trials[1].params["layers"] = 5;
  fresh.trials[0].variants[1].name = "renamed";
  const Comparison c = compared(base, fresh);
  EXPECT_THAT(c.missing, Contains(HasSubstr("lagging (steps=2 seed=7 hidden=64 layers=4)")));
  EXPECT_THAT(c.fresh, Contains(HasSubstr("lagging (steps=2 seed=7 hidden=64 layers=5)")));
  EXPECT_THAT(c.missing, Contains("fsdp_prefetch/smoke/r2/math/instant stash"));
  EXPECT_THAT(c.fresh, Contains("fsdp_prefetch/smoke/r2/math/instant renamed"));
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_EQ(c.regressions(), 2) << "the trial and the variant, each once";
  EXPECT_THAT(comparison_summary(c), HasSubstr("2 regressions (2 missing in NEW)"));
  const Comparison allowed = compared(base, fresh, {}, true);
  EXPECT_EQ(allowed.exit_code(), 0);
  EXPECT_THAT(comparison_summary(allowed), HasSubstr("2 missing in NEW (allowed)"));
}

TEST_F(Compare, ARankThatIsGoneIsMissing) {
  fresh.trials[0].variants[1].ranks.pop_back();
  const Comparison c = compared(base, fresh);
  EXPECT_THAT(c.missing, Contains("fsdp_prefetch/smoke/r2/math/instant stash rank 1"));
  EXPECT_EQ(c.exit_code(), 1);
}

TEST_F(Compare, ATrialThatIsSkippedNowIsMissing) {
  fresh.trials[0].skipped = "no room";
  fresh.trials[0].variants.clear();
  fresh.trials[0].verdicts.clear();
  const Comparison c = compared(base, fresh);
  EXPECT_THAT(c.missing, Contains(HasSubstr("instant (skipped: no room)")));
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_EQ(compared(base, fresh, {}, true).exit_code(), 0) << "the other trial is still compared";
  EXPECT_THAT(compared(fresh, base).fresh, Contains(HasSubstr("instant (was skipped: no room)")));
}

TEST_F(Compare, WhatWasNotRunIsMissing) {
  for (auto& v : fresh.trials[0].variants) v.not_run = "killed";
  fresh.trials[0].not_run = fresh.trials[1].not_run = "killed";
  fresh.trials[0].verdicts.clear();
  fresh.trials[1].variants[1].not_run = "killed";
  std::erase_if(fresh.trials[1].verdicts, [](const Verdict& v) { return v.variant == "stash"; });
  const auto c = compared(base, fresh);
  ASSERT_EQ(c.missing.size(), 2u);
  EXPECT_THAT(c.missing[0], testing::EndsWith("(not run: killed)"));
  EXPECT_THAT(c.missing[1], HasSubstr("stash (not run: killed)"));
  EXPECT_EQ(c.exit_code(), 1);
}

TEST_F(Compare, WhereEverythingVanishedNothingWasCompared) {
  for (TrialRecord& trial : fresh.trials) trial.variants.clear(), trial.verdicts.clear();
  for (bool allowed : {false, true}) {
    const Comparison c = compared(base, fresh, {}, allowed);
    EXPECT_EQ(c.exit_code(), 4);
    EXPECT_THAT(comparison_summary(c), HasSubstr("nothing is in both reports, 4 missing in NEW"));
  }
}

TEST_F(Compare, AMetricThatVanishedIsMissing) {
  forward(fresh).name = "onward";
  const Comparison c = compared(base, fresh);
  EXPECT_THAT(c.missing, Contains(HasSubstr("stash rank 0 memory/active/forward")));
  EXPECT_EQ(c.exit_code(), 1);
}

TEST_F(Compare, ACollectiveThatIsNotCalledAnyMoreIsCountedAsNone) {
  for (RankRecord& rank : fresh.trials[0].variants[1].ranks)
    rank.counters.collectives = {{"broadcast", 4}};
  const Comparison c = compared(base, fresh);
  EXPECT_TRUE(c.missing.empty());
  ASSERT_EQ(c.changes.size(), 2u);
  EXPECT_THAT(sentence(c.changes[0]), HasSubstr("collectives/broadcast: 0 -> 4 calls"));
  EXPECT_EQ(c.changes[0].effect, Effect::regression);
  EXPECT_THAT(sentence(c.changes[1]), HasSubstr("collectives/all_gather: 4 -> 0 calls"));
  EXPECT_EQ(c.changes[1].effect, Effect::improvement);
}

TEST_F(Compare, VerdictsThatAreLostForOneReasonAreOneLine) {
  auto& verdicts = base.trials[0].verdicts;
  for (const char* name : {"saving/active/forward", "saving/reserved/forward", "parity/loss"}) {
    verdicts.push_back(verdicts[1]);
    verdicts.back().name = name;
  }
  fresh = base;
  for (Verdict& v : fresh.trials[0].verdicts) {
    if (v.variant != "stash" || v.name.starts_with("memory/")) continue;
    v.status = Status::skip;
    v.measured.reset();
    v.why = "not judged: no baseline";
  }
  const Comparison c = compared(base, fresh);
  ASSERT_EQ(c.turns.size(), 1u);
  EXPECT_THAT(sentence(c.turns[0]), HasSubstr("saving/active/forward and 2 other verdicts: pass -> "
                                              "skip: not judged: no baseline"));
  EXPECT_EQ(c.exit_code(), 1);
}

TEST_F(Compare, AVerdictThatIsNotReachedAnyMoreIsLost) {
  fresh.trials[0].verdicts.pop_back();
  EXPECT_EQ(compared(base, fresh).exit_code(), 1);
  fresh = base;
  fresh.trials[0].verdicts[0].status = Status::skip;
  EXPECT_EQ(compared(base, fresh).exit_code(), 1);
  fresh = base;
  fresh.trials[0].verdicts[0].high = *base.trials[0].verdicts[0].high + 1;
  const Comparison c = compared(base, fresh);
  ASSERT_EQ(c.turns.size(), 1u);
  EXPECT_THAT(sentence(c.turns[0]),
              HasSubstr("pass as before: the prediction changed: 5,242,880 -> "
                        "between 5,242,880 and 5,242,881 bytes"));
  EXPECT_EQ(c.exit_code(), 0);
  fresh.trials[0].verdicts[0].low = *fresh.trials[0].verdicts[0].high;
  EXPECT_THAT(sentence(compared(base, fresh).turns[0]), HasSubstr("5,242,880 -> 5,242,881 bytes"));
}

TEST_F(Compare, AVariantThatBrokeIsOneRegression) {
  fresh.trials[0].variants[1].error = "out of memory";
  fresh.trials[0].variants[1].ranks.clear();
  const Comparison c = compared(base, fresh);
  ASSERT_FALSE(c.turns.empty());
  EXPECT_EQ(c.turns[0].name, "error");
  EXPECT_EQ(c.regressions(), 1) << "its verdicts and figures are not there for the same reason";
  EXPECT_THAT(sentence(c.turns[0]), HasSubstr("out of memory"));
  EXPECT_EQ(c.exit_code(), 1);
}

TEST_F(Compare, NothingInCommonIsNotSuccess) {
  Report other = small_report();
  for (TrialRecord& trial : other.trials) trial.seed += 1;
  EXPECT_EQ(compared(small_report(), other).exit_code(), 4);
  EXPECT_EQ(compared({}, {}).exit_code(), 4);
}

}  // namespace
}  // namespace tidemark
