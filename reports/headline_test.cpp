// The sentences that say how a run went: "All" only where nothing was left out.
#include "reports/headline.h"

#include <gmock/gmock.h>

#include "reports/overview.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::StartsWith;

/// Report of one trial that finished, with these verdicts.
Report finished(std::vector<Verdict> verdicts) {
  Report report = small_report();
  report.trials.resize(1);
  report.trials[0].verdicts = std::move(verdicts);
  return report;
}

Verdict verdict(const std::string& name, const std::string& variant, Status status) {
  return {.name = name, .variant = variant, .status = status};
}

TEST(Headline, AllIsSaidOnlyWhereNothingWasLeftOut) {
  const auto pass = verdict("parity/loss", "stash", Status::pass);
  EXPECT_EQ(headline(finished({pass, pass})), "All 2 verdicts passed");
  const auto skip = verdict("parity/loss", "stash", Status::skip);
  EXPECT_EQ(headline(finished({pass, pass, skip})), "2 verdicts passed, 1 skipped");
  Report skipped = finished({pass, pass});
  skipped.trials.push_back(small_report().trials[2]);
  ASSERT_FALSE(skipped.trials[1].skipped.empty());
  EXPECT_EQ(headline(skipped), "2 verdicts passed; 1 of 2 trials finished, 1 skipped");
  EXPECT_EQ(headline_status(skipped), Status::pass);
}

TEST(Headline, ATrialThatDidNotRunIsNoSuccess) {
  Report report = finished({verdict("parity/loss", "stash", Status::pass)});
  report.trials.push_back(report.trials[0]);
  report.trials[1].variants.clear();
  report.trials[1].verdicts.clear();
  report.trials[1].not_run = "the run ended before it";
  EXPECT_THAT(headline(report), StartsWith("Incomplete: 1 of 2 trials finished"));
  EXPECT_EQ(headline_status(report), Status::fail);
  EXPECT_EQ(counts_text(report),
            "1 of 2 trials finished, 1 not run; 1 verdict passed, 0 failed, 0 skipped");
}

TEST(Headline, ARunInWhichAllIsOutOfMemoryHasOneCauseAndIsNotJudged) {
  Report report = finished({verdict("control/early", "early", Status::fail)});
  report.run.capacity_bytes = Bytes{6} << 30;
  TrialRecord& trial = report.trials[0];
  trial.variants.resize(2);
  for (VariantRecord& variant : trial.variants) {
    variant.ranks.clear();
    variant.errors = {
        {0, ErrorKind::out_of_memory, "CUDA out of memory. Tried to allocate 7.00 GiB.", ""}};
    variant.error = errors_text(variant.errors);
  }
  trial.variants[1].name = "early", trial.variants[1].role = Role::control;
  EXPECT_EQ(headline(report), "Not judged: 2 variants ran out of memory: 6 GiB are too few");
  EXPECT_EQ(headline_status(report), Status::fail);
  EXPECT_EQ(control_tallies(report)[0].text(),
            "0 of 1 control caught, 1 not judged (early: it ran out of memory)");
  const auto said = [&] {
    const std::vector<Overview> all = overviews(report);
    return outcome_of({&all.at(0)});
  };
  EXPECT_EQ(said().text, "2 variants ran out of memory") << "as the headline: nothing is judged";
  EXPECT_EQ(said().status, Status::fail);
  trial.variants[0].errors[0].kind = ErrorKind::other;
  EXPECT_THAT(said().text, StartsWith("1 variant ran out of memory, 1 variant ended in error"));
  EXPECT_THAT(headline(report), StartsWith("2 variants ended in error"));
}

TEST(Headline, ControlsThatWereNotTriedAreNotCaught) {
  Report report = finished({verdict("control/early", "early", Status::pass),
                            verdict("control/late", "late", Status::skip),
                            verdict("control/loud", "loud", Status::fail)});
  report.trials[0].verdicts[1].why = "needs numbers (--mode math)";
  const VariantRecord variant = report.trials[0].variants[0];
  for (const char* name : {"early", "late", "loud"}) {
    auto& control = report.trials[0].variants.emplace_back(variant);
    control.name = name;
    control.role = Role::control;
  }
  const auto tallies = control_tallies(report);
  ASSERT_EQ(tallies.size(), 1u);
  EXPECT_EQ(tallies[0].text(),
            "1 of 3 controls caught, 1 not caught (loud), 1 not judged (late: needs numbers "
            "(--mode math))");
  report.trials[0].verdicts[1].status = report.trials[0].verdicts[2].status = Status::pass;
  EXPECT_EQ(control_tallies(report)[0].text(), "all 3 controls caught");
}

}  // namespace
}  // namespace tidemark
