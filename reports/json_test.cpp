#include "reports/json.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::HasSubstr;

std::string why_refused(const std::string& text) {
  try {
    parse_report(text, "report.json");
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "(read)";
}

std::string with(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Json, ReadsBackWhatItWrote) {
  for (const Report& report :
       {small_report(), gpu_report(), cut_report(), sample_report(), hostile_report()}) {
    const std::string text = json_text(report);
    EXPECT_EQ(first_difference(json_text(parse_report(text, "x")), text), "");
  }
}

TEST(Json, WhatOnlyAGpuHasSurvives) {
  const Report before = gpu_report(), after = parse_report(json_text(before), "x");
  EXPECT_EQ(after.run.sharing, before.run.sharing);
  EXPECT_EQ(after.run.arithmetic, before.run.arithmetic);
  const Timing read = after.trials[0].variants[1].timing.value();
  EXPECT_EQ(read.median, 3'000'000);
  EXPECT_EQ(read.ratio.value().highest, 1.25);
  EXPECT_FALSE(after.trials[1].variants[0].timing);
  const RankRecord& rank = after.trials[1].variants[0].ranks[1];
  EXPECT_EQ(rank.outside, 500 * kMiB + 1);
  EXPECT_EQ(rank.owners.value().unknown, "there is no <NVML>");
  EXPECT_EQ(after.trials[0].variants[1].ranks[1].owners,
            (OutsideOwners{480 * kMiB, 20 * kMiB + 1, 550 * kMiB, ""}));
  EXPECT_EQ(rank.unheld, before.trials[1].variants[0].ranks[1].unheld);
}

TEST(Json, EveryFieldSurvives) {
  const Report before = sample_report(2), after = parse_report(json_text(before), "x");
  const RankRecord &a = before.trials[2].variants[0].ranks[3],
                   &b = after.trials[2].variants[0].ranks[3];
  EXPECT_EQ(b.steps[0].phases[1][Statistic::active].peak,
            a.steps[0].phases[1][Statistic::active].peak);
  EXPECT_EQ(b.timeline.back().reserved, a.timeline.back().reserved);
  EXPECT_EQ(b.counters.collectives, a.counters.collectives);
  EXPECT_EQ(b.categories.size(), a.categories.size());
  EXPECT_EQ(after.trials[2].variants[0].sweep.size(), before.trials[2].variants[0].sweep.size());
  const Growth &grown = before.trials[3].variants[0].growth.at(0),
               &read = after.trials[3].variants[0].growth.at(0);
  EXPECT_EQ(read.parameter, "layers");
  ASSERT_EQ(read.points.size(), grown.points.size());
  for (std::size_t i = 0; i < grown.points.size(); ++i) {
    EXPECT_EQ(read.points[i].value, grown.points[i].value);
    EXPECT_EQ(read.points[i].predicted, grown.points[i].predicted);
    EXPECT_EQ(read.points[i].measured, grown.points[i].measured);
  }
  EXPECT_EQ(after.run.argv, before.run.argv);
  EXPECT_EQ(after.trials[1].verdicts[5].values, before.trials[1].verdicts[5].values);
  EXPECT_EQ(after.trials[1].story, before.trials[1].story);
  EXPECT_EQ(after.trials[1].variants[2].what, before.trials[1].variants[2].what);
  const RankRecord &c = before.trials[3].variants[0].ranks[3],
                   &d = after.trials[3].variants[0].ranks[3];
  ASSERT_EQ(d.largest.size(), c.largest.size());
  EXPECT_EQ(d.largest[1].shape, c.largest[1].shape);
  EXPECT_TRUE(d.largest[1].pending);
  ASSERT_EQ(d.maps.size(), 3u);
  EXPECT_EQ(d.maps[1].segments[1].parts[2].use, BlockUse::pending);
  EXPECT_EQ(d.maps[1].segments[1].address, c.maps[1].segments[1].address);
  ASSERT_EQ(d.spans.all.size(), c.spans.all.size());
  EXPECT_EQ(d.spans.all[0].kind, SpanKind::collective);
  EXPECT_EQ(d.spans.all.back().end, c.spans.all.back().end);
  ASSERT_EQ(d.trace.events.size(), c.trace.events.size());
  EXPECT_EQ(d.trace.events[3].action, c.trace.events[3].action);
  EXPECT_EQ(d.trace.events[3].address, c.trace.events[3].address);
  const RankRecord& racing = after.trials[1].variants[6].ranks[0];
  EXPECT_EQ(racing.races.at(0).second.span,
            before.trials[1].variants[6].ranks[0].races[0].second.span);
  EXPECT_GE(racing.races.at(0).second.span, 0);
}

TEST(Json, ReadsVersion1_0WhichHadLess) {
  auto old = to_json(small_report());
  old["schema_version"] = "1.0";
  for (auto& trial : old["trials"]) {
    trial.erase("story");
    for (auto& variant : trial["variants"]) {
      variant.erase("gradients"), variant.erase("what"), variant.erase("growth");
      for (auto& rank : variant["ranks"]) {
        for (auto& step : rank["steps"]) step.erase("times");
        for (const char* key : {"largest", "maps", "spans", "trace"}) rank.erase(key);
        for (auto& race : rank["races"])
          for (const char* side : {"first", "second"}) race[side].erase("span");
      }
    }
  }
  const Report read = parse_report(json_text(old), "x");
  EXPECT_TRUE(read.trials[0].variants[0].ranks[0].maps.empty());
  EXPECT_EQ(read.trials[1].variants[0].ranks[0].races.at(0).first.span, -1);
  EXPECT_EQ(read.trials[0].variants[0].ranks[0].timeline.size(), 3u);
}

TEST(Json, WritesStepsThatAreTheSameOnce) {
  Report report = small_report();
  auto& steps = report.trials[0].variants[0].ranks[0].steps;
  steps.insert(steps.end(), 98, steps[0]);
  steps.back().phases[0][Statistic::reserved].end += 1;
  const auto json = to_json(report);
  const auto& written = json["trials"][0]["variants"][0]["ranks"][0]["steps"];
  ASSERT_EQ(written.size(), 2u);
  EXPECT_EQ(written[0]["times"], 98);
  const Report back = parse_report(json_text(json), "x");
  EXPECT_EQ(back.trials[0].variants[0].ranks[0].steps, steps);
  for (const char* times : {"0", "-1", "100001", "1e9", "\"2\""})
    EXPECT_THAT(
        why_refused(with(json_text(json), "\"times\": 98", std::string("\"times\": ") + times)),
        HasSubstr("times"))
        << times;
}

TEST(Json, LossesKeepEveryBit) {
  Report report = small_report();
  std::vector<LossPoint>& loss = report.trials[0].variants[0].loss;
  loss.clear();
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) loss.push_back({i, std::bit_cast<double>(random())});
  for (double value : {0.0, -0.0, 5e-324, 1e16, 0.1, 1.7976931348623157e308, HUGE_VAL, -HUGE_VAL}) {
    loss.push_back({0, value});
  }
  loss.push_back({0, std::nullopt});
  const Report back = parse_report(json_text(report), "x");
  const std::vector<LossPoint>& read = back.trials[0].variants[0].loss;
  ASSERT_EQ(read.size(), loss.size());
  for (std::size_t i = 0; i < loss.size(); ++i) {
    ASSERT_EQ(read[i].value.has_value(), loss[i].value.has_value()) << i;
    if (!loss[i].value || std::isnan(*loss[i].value)) continue;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(*read[i].value),
              std::bit_cast<std::uint64_t>(*loss[i].value));
  }
}

TEST(Json, LossHasDecimalAndHexadecimal) {
  const std::string text = json_text(small_report());
  EXPECT_THAT(text, HasSubstr(R"({"step": 0, "value": 0.1, "hex": "0x1.999999999999ap-4"})"));
  Report report = small_report();
  report.trials[0].variants[0].loss = {{0, 1.0}, {1, std::nullopt}, {2, NAN}};
  const std::string odd = json_text(report);
  EXPECT_THAT(odd, HasSubstr(R"({"step": 0, "value": 1.0, "hex": "0x1p+0"})"));
  EXPECT_THAT(odd, HasSubstr(R"({"step": 1, "value": null, "hex": null})"));
  EXPECT_THAT(odd, HasSubstr(R"({"step": 2, "value": null, "hex": "nan"})"));
}

TEST(Json, OnlyRunDiffersBetweenRuns) {
  auto first = to_json(small_report());
  Report other = small_report();
  other.run.id = "another";
  other.run.duration_ns += 1;
  auto second = to_json(other);
  EXPECT_NE(json_text(first), json_text(second));
  first.erase("run"), second.erase("run");
  EXPECT_EQ(json_text(first), json_text(second));
}

TEST(Json, BytesAreIntegers) {
  const std::string text = json_text(small_report());
  EXPECT_THAT(text, HasSubstr("\"U\": 1048576"));
  EXPECT_THAT(text, HasSubstr("\"low\": 5242880"));
}

TEST(Json, SaysWhatIsWrongInOneLine) {
  const std::string good = json_text(small_report());
  const std::pair<std::string, const char*> cases[] = {
      {"", "cut off"},
      {good.substr(0, good.size() / 2), "cut off"},
      {with(good, "\"trials\"", "trials"), "changed or is another"},
      {with(good, "\"1.3\"", "\"2.0\""), "schema version 2.0 where this tidemark reads 1.3"},
      {with(good, "\"states\": \"afff", "\"states\": \"axff"), "'x' is not one of the letters apf"},
      {with(good, "\"states\": \"afff", "\"states\": \"aff"),
       "has 4 values where there are 3 letters"},
      {with(good, "\"block_bytes\": [1048576", "\"block_bytes\": [1048575"),
       "its blocks do not lie end to end"},
      {with(good, "\"kinds\": \"l", "\"kinds\": \"?"), "'?' is not one of the letters olcw"},
      {with(good, "\"stream\": [2, ", "\"stream\": [9, "), "9 is no place in a list of 3 names"},
      {with(good, "\"pending\": false", "\"pending\": 0"), "is not true or false"},
      {with(good, "tidemark/report", "other/report"), "not a 'tidemark/report'"},
      {with(good, "\"scenario\"", "\"scenarios\""), "trials[0]: missing key 'scenario'"},
      {with(good, "\"before\": 3145728", "\"before\": 1.5"),
       "trials[fsdp_prefetch/smoke/math/instant].variants[record_stream].ranks[0].rest.before: is "
       "number, not an integer"},
      {with(good, "\"before\": 3145728", "\"before\": 18446744073709551615"),
       "does not fit 64 bits"},
      {with(good, "\"baseline\"", "\"basis\""),
       "role: 'basis' is not one of baseline, fixed, control"},
      {with(good, "\"status\": \"pass\"", "\"status\": \"fail\""), "the file was edited"},
      {with(good, "\"value\": 0.1", "\"value\": 0.2"), "different numbers"},
      {with(good, "\"0x1.999999999999ap-4\"", "\"0x1.zp-4\""), "not a hexadecimal float"},
      {with(good, "\"reserved\": [20971520, ", "\"reserved\": ["), "columns differ in length"},
      {with(good, "\"peak\": 5242880", "\"peak\": 1"), "differs from the last of 'steps'"},
      {"[]", "is array, not an object"},
      {"{}", "missing key 'schema'"}};
  for (const auto& [text, expected] : cases) {
    const std::string why = why_refused(text);
    EXPECT_THAT(why, HasSubstr(expected));
    EXPECT_THAT(why, testing::StartsWith("report.json: "));
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  }
}

TEST(Json, MissingFileSaysWhatToGive) {
  ScratchFolder folder;
  try {
    read_report(folder.path());
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("report.json: cannot be read: give the folder"));
  }
}

}  // namespace
}  // namespace tidemark
