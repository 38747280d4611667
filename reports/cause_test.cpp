// One cause, one line: errors of all ranks, failures of one variant.
#include "reports/cause.h"

#include <gmock/gmock.h>

#include "reports/html.h"
#include "reports/overview.h"
#include "reports/renderings.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::HasSubstr;
using testing::Not;

RankError out_of_memory(int rank) {
  return {rank, ErrorKind::out_of_memory,
          "CUDA out of memory. Tried to allocate 400.00 MiB. GPU 0 has a total capacity of 6.00 "
          "GiB of which 276.00 MiB is free. Including non-PyTorch memory, this process has 5.73 "
          "GiB memory in use. Of the allocated memory 5.10 GiB is allocated by PyTorch; see the "
          "documentation",
          "in fsdp_prefetch/seed/lagging two_buffers, step 1, after all_gather 19 of 104857600 x "
          "Float on communicator 0 of 4 ranks, its call 40 (before that all_gather 18 of 8 x Float "
          "on communicator 0 of 4 ranks, its call 39), last operators aten::mm, aten::empty; "
          "snapshot of that moment: oom/a-rank" +
              std::to_string(rank) + ".pickle"};
}

void end(VariantRecord& variant, std::vector<RankError> errors) {
  variant.error = errors_text(errors);
  variant.errors = std::move(errors);
}

std::string brief(std::vector<RankError> errors) {
  VariantRecord variant;
  end(variant, std::move(errors));
  return brief_error(variant);
}

std::string brief(const std::string& error) {
  VariantRecord variant;
  variant.error = error;
  return brief_error(variant);
}

TEST(Cause, OutOfMemoryOnAllRanksIsOneLine) {
  EXPECT_EQ(brief({out_of_memory(0), out_of_memory(1), out_of_memory(2)}),
            "ranks 0-2 alike: out of memory: asked 400 MiB; 276 MiB free of 6 GiB (step 1, "
            "after all_gather 19)");
}

TEST(Cause, RanksThatOnlyFollowedAreNamedAtTheEnd) {
  const RankError partner{0, ErrorKind::partner, "unhandled", "in a/b/c stash, step 0"};
  RankError other = partner;
  other.rank = 2;
  EXPECT_EQ(brief({{1, ErrorKind::other, "injected", "in a/b/c stash, step 0"}, partner, other}),
            "rank 1: injected (step 0); ranks 0, 2 ended with it");
  EXPECT_EQ(brief({partner, other}), "ranks 0, 2 alike: unhandled (step 0)")
      << "none has failed by itself";
}

TEST(Cause, DifferentErrorsAreAllThere) {
  const auto error = [](int rank, const std::string& text) {
    return RankError{rank, ErrorKind::other, text, ""};
  };
  EXPECT_EQ(brief({error(0, "this"), error(1, "that")}), "rank 0: this; rank 1: that");
  EXPECT_EQ(brief("the ranks ended early: signal 9"), "the ranks ended early: signal 9");
  EXPECT_LT(brief({error(0, std::string(500, 'x') + " y")}).size(), 600u);
  EXPECT_LT(brief(std::string(50, 'x') + " " + std::string(500, 'y')).size(), 60u);
}

TEST(Cause, AnErrorIsToldOnceForAllSchedules) {
  Report report = small_report();
  for (TrialRecord& trial : report.trials)
    if (!trial.variants.empty()) end(trial.variants[1], {out_of_memory(0), out_of_memory(1)});
  ASSERT_EQ(breakdowns(report).size(), 1u);
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("ERROR fsdp_prefetch/smoke stash under instant, lagging: ranks 0-1 "
                              "alike: out of memory: asked 400 MiB"));
  EXPECT_THAT(text, Not(HasSubstr("Including non-PyTorch memory")));
  EXPECT_THAT(markdown(report), Not(HasSubstr("Including non-PyTorch memory")));
}

/// `names` failed verdicts of stash under lagging.
Report failing(int names) {
  Report report = small_report();
  TrialRecord& trial = report.trials[1];
  Verdict verdict = trial.verdicts.back();
  verdict.why = "";
  trial.verdicts.pop_back();
  for (int i = 0; i < names; ++i) {
    verdict.name = "memory/active/phase" + std::to_string(i);
    trial.verdicts.push_back(verdict);
  }
  return report;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

TEST(Cause, ManyFailuresOfOneVariantAreOneGroup) {
  const Report report = failing(40);
  ASSERT_EQ(failure_groups(report).size(), 1u);
  EXPECT_EQ(failure_groups(report)[0].failures.size(), 40u);
  const std::string text = text_of(report);
  EXPECT_EQ(count(text, "again:"), 1);
  EXPECT_THAT(text, HasSubstr("and 39 more of stash:"));
  EXPECT_EQ(count(markdown(report), "again:"), 1);
  EXPECT_EQ(count(text_of(failing(3)), "again:"), 3) << "a few are told in full";
}

TEST(Cause, TheCommandToRunAgainIsThatOfTheReportsProgram) {
  Report report = failing(1);
  for (TrialRecord& trial : report.trials)
    trial.scenario = "fsdp_prefetch beside torch 2.11.0", trial.size = "implicit, stays";
  report.run.argv = {"ci/upstream", "--report", "out"};
  EXPECT_THAT(text_of(report),
              HasSubstr("again: ci/upstream fsdp_prefetch --rows 'implicit, stays'\n"));
  for (TrialRecord& trial : report.trials) trial.scenario = "test/test_nn.py";
  EXPECT_THAT(text_of(report),
              HasSubstr("again: ci/upstream --suite CHECKOUT --files test/test_nn.py\n"));
  for (TrialRecord& trial : report.trials) trial.scenario = "fsdp_prefetch beside torch 2.11.0";
  report.run.argv = {"pytest", "-x"};
  EXPECT_THAT(text_of(report), HasSubstr("again: pytest 'fsdp_prefetch beside torch 2.11.0'\n"));
}

TEST(Cause, WhatIsNotToldInFullIsCountedByRank) {
  Report report = failing(40);
  std::vector<Verdict>& verdicts = report.trials[1].verdicts;
  for (Verdict verdict : std::vector<Verdict>(verdicts))
    if (verdict.status == Status::fail) ++verdict.rank, verdicts.push_back(verdict);
  EXPECT_EQ(count_of(failures(report)), 80);
  EXPECT_THAT(text_of(report), HasSubstr("and 78 more of stash:"));
  EXPECT_THAT(markdown(report), HasSubstr("and 78 more of stash:"));
  EXPECT_THAT(html(report), HasSubstr("78 verdicts more failed in stash"));
}

TEST(Cause, TheCapacityIsNamedWhereItShapedTheRun) {
  Report report = failing(40);
  for (RankRecord& rank : report.trials[1].variants[1].ranks) rank.counters.num_alloc_retries = 2;
  const std::string why = shaped_by_capacity(report.trials[1].variants[1]);
  EXPECT_EQ(
      why,
      "the capacity affected this run: the allocator freed its cached memory and tried again 2 "
      "times on ranks 0-1");
  EXPECT_EQ(common_cause(report), "stash: " + why);
  EXPECT_THAT(text_of(report), HasSubstr("and 39 more for this reason: stash: " + why));
  EXPECT_THAT(text_of(report), HasSubstr("note: stash under lagging: the capacity affected"));
  EXPECT_THAT(markdown(report), HasSubstr("the capacity affected this run"));
  EXPECT_EQ(shaped_by_capacity(small_report().trials[1].variants[1]), "");
}

TEST(Cause, SavingsOfAllFixesFailForTheBaselinesCapacity) {
  Report report = small_report();
  TrialRecord& trial = report.trials[1];
  for (RankRecord& rank : trial.variants[0].ranks) rank.counters.num_alloc_retries = 1;
  Verdict verdict = trial.verdicts.back();
  trial.verdicts.pop_back();
  for (const char* fix : {"stash", "two_buffers"}) {
    verdict.name = "saving/step";
    verdict.variant = fix;
    trial.verdicts.push_back(verdict);
  }
  ASSERT_EQ(failure_groups(report).size(), 1u);
  EXPECT_EQ(failure_groups(report)[0].variant, "record_stream");
}

TEST(Cause, VariantsThatEndedAlikeAreOneLineAndNoFailureBesides) {
  Report report = failing(1);
  TrialRecord& trial = report.trials[1];
  for (VariantRecord& variant : trial.variants) end(variant, {out_of_memory(0)});
  ASSERT_EQ(breakdowns(report).size(), 1u);
  EXPECT_EQ(breakdowns(report)[0].variants, (std::vector<std::string>{"record_stream", "stash"}));
  EXPECT_TRUE(failure_groups(report).empty());
  EXPECT_THAT(common_cause(report), testing::StartsWith("record_stream, stash: rank 0: out of"));
}

TEST(Cause, OthersReasonsStayApart) {
  Report report = failing(2);
  report.trials[1].verdicts.back().name = "race/none";
  report.trials[1].verdicts.back().why = "another";
  EXPECT_EQ(failure_groups(report).size(), 2u);
  EXPECT_EQ(common_cause(report), "");
}

}  // namespace
}  // namespace tidemark
