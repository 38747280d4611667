// The page's data: the same figures as the report, small however large the report, every peak still
// there.
#include "reports/page_data.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/record/gzip.h"
#include "reports/html.h"
#include "reports/testing/sample.h"
#include "reports/thin.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

TEST(Thin, ExtremesOfAnyHeights) {
  const auto saw = [](std::size_t i) { return i == 4321 ? 1e9 : static_cast<double>(i % 10); };
  const std::vector<std::size_t> kept = tidemark::extremes(100'000, 50, {saw});
  EXPECT_LE(kept.size(), 50u);
  EXPECT_TRUE(std::ranges::is_sorted(kept));
  EXPECT_TRUE(std::ranges::binary_search(kept, 4321u));
  EXPECT_EQ(kept.front(), 0u);
  EXPECT_EQ(kept.back(), 99'999u);
}

TEST(PageData, HoldsGradients) {
  const Json data = page_data(sample_report(2));
  const Json& wrong = data["trials"][3]["variants"][7];  // unstash_before_wait, lagging
  const Json& gradient = wrong["gradients"][3];
  EXPECT_EQ(gradient["name"], "layers.3.weight");
  EXPECT_EQ(gradient["first"], 21);
  EXPECT_TRUE(gradient["baseline"]["ulps"].is_null()) << "infinitely far";
  EXPECT_EQ(gradient["reference"]["absolute"], 0.375);
}

TEST(PageData, HoldsTheFiguresOfAnotherRunWhereBothHaveTheVariant) {
  const Report report = small_report();
  Report base = report;
  base.trials[0].variants.pop_back();
  for (RankRecord& rank : base.trials[0].variants[0].ranks)
    for (Phase& phase : rank.steps.back().phases) phase[Statistic::active].peak = 77;
  const Json variants = page_data(report, {}, &base)["trials"][0]["variants"];
  EXPECT_EQ(variants[0]["base"]["active"], 77);
  EXPECT_FALSE(variants[1].contains("base"));
  base.trials[0].seed += 1;
  EXPECT_FALSE(page_data(report, {}, &base)["trials"][0]["variants"][0].contains("base"))
      << "another trial";
  EXPECT_FALSE(page_data(report)["trials"][0]["variants"][0].contains("base"));
}

TEST(PageData, HoldsTheFiguresOfTheReport) {
  const Report report = small_report();
  const Json data = page_data(report);
  EXPECT_EQ(data["run"]["argv"][2], "fsdp_prefetch");
  EXPECT_EQ(data["left_out"], 0);
  const Json& trial = data["trials"][1];
  EXPECT_EQ(trial["schedule"], "lagging");
  EXPECT_THAT(trial["command"].get<std::string>(),
              testing::HasSubstr("tidemark run fsdp_prefetch"));
  const Json& rank = trial["variants"][0]["ranks"][1];
  EXPECT_EQ(rank["phases"][0]["allocated"], (Json{{"peak", 4 << 20}, {"end", 3 << 20}}));
  EXPECT_EQ(trial["variants"][0]["loss"][1]["hex"], "0x1.5555555555555p-2");
  ASSERT_EQ(trial["verdicts"].size(), 3u);
  const Json& failed = trial["verdicts"][2];  // stash on two ranks, of which one failed
  EXPECT_EQ(failed["variant"], "stash");
  EXPECT_EQ(failed["name"], "memory/form/active/forward");
  EXPECT_EQ(failed["ranks"], Json::array({1}));
  EXPECT_EQ(failed["status"], "fail");
  EXPECT_EQ(failed["measured"], 6 << 20);
  EXPECT_EQ(failed["why"], "1.00 MiB more than the formula says");
  EXPECT_EQ(trial["tallies"].size(), 2u);
  EXPECT_EQ(trial["tallies"]["stash"]["fail"], 1);
  EXPECT_EQ(data["trials"][2]["skipped"], "size seed runs in shapes only");
}

TEST(PageData, UsesOfFreedMemoryComeFirstThenTheLargerRaces) {
  Report report = small_report();
  const Access access{"op", "stream 0", -1};
  report.trials[0].variants[0].ranks[0].races = {
      {access, access, 10, "small"},
      {access, access, 30, "large; in between, the block of the first was freed"},
      {access, access, 1, "was freed", "freed"}};
  const Json data = page_data(report);
  std::vector<std::string> order;
  for (const Json& race : data["trials"][0]["variants"][0]["ranks"][0]["races"])
    order.push_back(race["explanation"].get<std::string>().substr(0, 5));
  EXPECT_THAT(order, testing::ElementsAre("was f", "large", "small"));
}

TEST(PageData, ATrialThatCameUpTwiceUnderOneScheduleIsInTwoGroups) {
  Report report = small_report();
  report.trials.push_back(report.trials[0]);
  const Json data = page_data(report);
  std::vector<int> groups;
  for (const Json& trial : data["trials"]) groups.push_back(trial["group"]);
  EXPECT_THAT(groups, testing::ElementsAre(0, 0, 1, 2));
}

TEST(PageData, FailuresAreLeftOutLast) {
  const Report report = sample_report(2);
  PageBudget budget;
  budget.assertions = 3;
  const Json data = page_data(report, budget);
  std::set<std::string> kept, failed;
  std::size_t all = 0;
  for (const Json& trial : data["trials"]) {
    for (const Json& verdict : trial["verdicts"]) {
      const std::string key =
          trial["command"].dump() + verdict["variant"].dump() + verdict["name"].dump();
      kept.insert(key);
      if (verdict["status"] == "fail") failed.insert(key);
    }
    for (const Json& tally : trial["tallies"])
      for (const Json& count : tally) all += count.get<std::size_t>();
  }
  EXPECT_EQ(kept.size(), 3u);
  EXPECT_EQ(failed.size(), 2u);  // of the two trials under lagging
  EXPECT_GT(data["left_out"].get<int>(), 100);
  std::size_t verdicts = 0;
  for (const TrialRecord& trial : report.trials) verdicts += trial.verdicts.size();
  EXPECT_EQ(all, verdicts);
}

TEST(PageData, AHugeReportStaysUnderEightMegabytes) {
  const std::string page = html(huge_report());
  EXPECT_LT(page.size(), 8'000'000u);
  EXPECT_GT(page.size(), 1'000'000u);
  EXPECT_GT(unpacked_page_data(page)["left_out"].get<int>(), 0);
}

TEST(PageData, EqualPicturesStandOnceAndHaveThePeakOfTheRecord) {
  Report report = sample_report(2);
  TrialRecord& trial = report.trials[3];
  ASSERT_EQ(trial.schedule, "lagging");
  trial.variants[5] = trial.variants[2];
  trial.variants[5].name = "the same again";
  PageBudget budget;
  budget.moments = 40;
  const Json data = page_data(report, budget);
  const Json& variants = data["trials"][3]["variants"];
  EXPECT_EQ(variants[2]["picture"], variants[5]["picture"]);
  EXPECT_NE(variants[2]["picture"], variants[0]["picture"]);
  EXPECT_FALSE(data["trials"][1]["variants"][0].contains("picture")) << "its memory was not kept";
  for (std::size_t v = 0; v < trial.variants.size(); ++v) {
    const Json& picture = data["pictures"][variants[v]["picture"].get<std::size_t>()];
    EXPECT_LE(picture["moments"], 40);
    EXPECT_EQ(picture["names"], Json::array({"rank 3"}));
    const auto peak = picture["peak"].get<std::int64_t>();
    std::int64_t active = 0, from = 0;
    const Json& blocks = picture["blocks"];
    for (std::size_t i = 0; i < blocks["from"].size(); ++i) {
      from += blocks["from"][i].get<std::int64_t>();
      if (from <= peak && peak < from + blocks["lives"][i].get<std::int64_t>())
        active += blocks["bytes"][i].get<Bytes>();
    }
    EXPECT_EQ(active, trial.variants[v].ranks.back().peak(Statistic::active));
  }
}

TEST(PageData, SavingsAreSumsOfAmounts) {
  Report report = small_report();
  TrialRecord& trial = report.trials[1];
  using enum MemoryKind;
  trial.symbols = {{"U", "a unit", {gathered_parameters}, {}},
                   {"rest", "what stays", {parameters, inputs}, {}},
                   {"x", "an activation", {activations}, {}},
                   {"L", "layers", {}, {}}};
  Verdict step{.name = "saving/step", .variant = "stash", .status = Status::pass};
  step.formula = "(rest_record_stream + (2*L - 1)*U + x) - (rest_stash + 3*x + U)";
  step.values = {{"rest_record_stream", 1000}, {"rest_stash", 700}, {"L", 4}, {"U", 64}, {"x", 8}};
  trial.verdicts.push_back(step);
  const auto terms = [&] { return page_data(report)["trials"][1]["savings"][0]["terms"]; };
  const auto term = [](const char* name, const char* what, std::vector<std::string> kinds,
                       double times, double bytes) {
    return Json{
        {"name", name}, {"what", what}, {"kinds", kinds}, {"times", times}, {"bytes", bytes}};
  };
  EXPECT_EQ(terms(), (Json{term("U", "a unit", {"gathered parameters"}, 6, 384),
                           term("rest", "what stays", {"parameters", "inputs"}, 1, 300),
                           term("x", "an activation", {"activations"}, -2, -16)}));
  for (const char* other : {"U*U", "max(U, x) + rest_stash*rest_stash", "U + Q", "U +", "5"}) {
    trial.verdicts.back().formula = other;
    EXPECT_TRUE(terms().is_null()) << other;
  }
  trial.verdicts.back().formula = "L*U - L*U";
  EXPECT_EQ(terms(), Json::array());
}

TEST(Overview, HasColumnsForARunWithTrialsInCommonAlone) {
  const Report report = small_report();
  Report other = report;
  EXPECT_THAT(html(report, &other), testing::HasSubstr("before: peak of fix</th>"));
  for (TrialRecord& trial : other.trials) ++trial.seed;
  EXPECT_THAT(html(report, &other),
              testing::AllOf(testing::HasSubstr("Compared with run"),
                             testing::Not(testing::HasSubstr("before: peak"))));
}

TEST(PageData, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace tidemark
