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

auto extremes(const std::vector<Sample>& samples) {
  std::vector<Bytes> out;
  for (auto member : {&Sample::allocated, &Sample::active, &Sample::reserved}) {
    const auto [low, high] =
        std::ranges::minmax_element(samples, {}, [member](const Sample& s) { return s.*member; });
    out.push_back((*low).*member);
    out.push_back((*high).*member);
  }
  return out;
}

TEST(Thin, KeepsEveryExtremeAndTheEnds) {
  for (std::size_t n : {1u, 2u, 7u, 8u, 9u, 100u, 5000u}) {
    for (std::size_t most : {0u, 8u, 50u, 2000u}) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        const std::vector<Sample> all = noise(n, seed), kept = thin(all, most);
        ASSERT_EQ(extremes(kept), extremes(all)) << n << " " << most << " " << seed;
        ASSERT_LE(kept.size(), std::max<std::size_t>(most, 8));
        ASSERT_EQ(kept.front().time, all.front().time);
        ASSERT_EQ(kept.back().time, all.back().time);
        ASSERT_TRUE(std::ranges::is_sorted(kept, {}, &Sample::time));
      }
    }
  }
}

TEST(Thin, WhatOnlyRepeatsGoesFirst) {
  std::vector<Sample> all(1000, Sample{0, 5, 6, 7});
  for (std::size_t i = 0; i < all.size(); ++i) all[i].time = static_cast<Ns>(i);
  all[500].active = 60;
  std::vector<Ns> times;
  for (const Sample& s : thin(all, 100)) times.push_back(s.time);
  EXPECT_THAT(times, testing::ElementsAre(0, 500, 501, 999));
  EXPECT_TRUE(thin(std::vector<Sample>(), 100).empty());
}

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
  EXPECT_EQ(rank["timeline"]["time"], (Json{0, 1500, 1500}));
  EXPECT_EQ(rank["timeline"]["allocated"], (Json{3 << 20, 1 << 20, -(1 << 20)}));
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

TEST(PageData, AHugeReportStaysUnderEightMegabytesWithItsPeaks) {
  const Report report = huge_report();
  const std::string page = html(report);
  EXPECT_LT(page.size(), 8'000'000u);
  EXPECT_GT(page.size(), 1'000'000u);
  const Json data = unpacked_page_data(page);
  EXPECT_GT(data["left_out"].get<int>(), 0);
  for (std::size_t t = 0; t < report.trials.size(); t += 7) {
    for (std::size_t v = 0; v < report.trials[t].variants.size(); ++v) {
      const Json& kept = data["trials"][t]["variants"][v]["ranks"][7]["timeline"];
      std::vector<Sample> samples(kept["time"].size());
      Sample sum;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        sum.time += kept["time"][i].get<Ns>(), sum.allocated += kept["allocated"][i].get<Bytes>();
        sum.active += kept["active"][i].get<Bytes>(),
            sum.reserved += kept["reserved"][i].get<Bytes>();
        samples[i] = sum;
      }
      EXPECT_EQ(extremes(samples), extremes(report.trials[t].variants[v].ranks[7].timeline));
      EXPECT_EQ(kept["in_all"], 700);
    }
  }
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
