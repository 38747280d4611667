#include "harness/record/json.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/record/file.h"
#include "harness/testing/refusal.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string why_refused(const std::string& text) {
  return refusal([&] { parse_report(text, "report.json"); });
}

std::string with(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Json, EveryFieldSurvives) {
  const Json filled = filled_json(), written = to_json(filled_report());
  for (const auto& [key, value] : filled.items())
    EXPECT_EQ(first_difference(json_text(written[key]), json_text(value)), "");
}

TEST(Json, ReadsVersion1_0WhichHadLess) {
  auto old = to_json(small_report());
  old["schema_version"] = "1.0";
  for (auto& trial : old["trials"]) {
    trial.erase("story");
    Json each = Json::array();
    for (Json verdict : trial["verdicts"]) {
      const Json ranks = verdict["ranks"];
      verdict.erase("ranks");
      for (const Json& rank : ranks) {
        verdict["rank"] = rank;
        each.push_back(verdict);
      }
    }
    trial["verdicts"] = std::move(each);
    for (auto& variant : trial["variants"]) {
      variant.erase("gradients"), variant.erase("what"), variant.erase("growth");
      for (auto& rank : variant["ranks"]) {
        for (auto& step : rank["steps"]) step.erase("times");
        for (const char* key : {"largest", "spans", "memory"}) rank.erase(key);
        for (auto& race : rank["races"])
          for (const char* side : {"first", "second"}) race[side].erase("span");
      }
    }
  }
  const Report read = parse_report(json_text(old), "x");
  EXPECT_TRUE(read.trials[0].variants[0].ranks[0].memory.empty());
  EXPECT_EQ(read.trials[1].variants[0].ranks[0].races.at(0).first.span, -1);
  EXPECT_EQ(read.trials[0].variants[0].ranks[0].timeline.size(), 3u);
  EXPECT_EQ(read.trials[0].verdicts.size(), 3u);
  EXPECT_EQ(read.trials[0].verdicts[2].rank, 1);
}

TEST(Json, ReadsTheWordsOfScenariosKindsUpTo3_0AndRefusesThoseThatItDoesNotKnow) {
  auto old = to_json(small_report());
  Json& rank = old["trials"][0]["variants"][0]["ranks"][0];
  const auto categories = [&](const char* text) {
    rank["categories"] = Json::parse(text);
    return parse_report(json_text(old), "x").trials[0].variants[0].ranks[0].categories;
  };
  const auto read = categories(R"({"unsharded": {"peak_share": 3, "end": 1},
                                   "frozen": {"peak_share": 4, "end": 2},
                                   "workspaces": {"peak_share": 5, "end": 0},
                                   "other": {"peak_share": 6, "end": 0},
                                   "rounding": {"peak_share": 1, "end": 0}})");
  EXPECT_EQ(read.size(), 4u);
  EXPECT_EQ(read.at(MemoryKind::gathered_parameters).peak_share, 3);
  EXPECT_EQ(read.at(MemoryKind::gathered_frozen_parameters).end, 2);
  EXPECT_EQ(read.at(MemoryKind::workspaces).peak_share, 5);
  EXPECT_EQ(read.at(MemoryKind::other).peak_share, 7) << "the shares still sum to the peak";
  for (const auto& [kind, bytes] : read) EXPECT_EQ(memory_kind(name_of(kind)), kind);
  EXPECT_THAT([&] { categories(R"({"holograms": {"peak_share": 3, "end": 1}})"); },
              testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr(
                  "'holograms' is no kind of memory that this version of tidemark knows")));
}

TEST(Json, ReadsProgramsOfVersion2) {
  const auto text =
      R"({"schema": "tidemark/report", "schema_version": "2.1", "run": {}, "trials": [],
      "programs": [{"program": ["python3", "a.py"], "mode": "math", "schedule": "lagging",
                    "exit_code": 7, "failures": ["--max-peak: rank 0 allocated much"], "ranks": [],
                    "alive": {"where": "rank0", "active": 8, "reserved": 16, "parts": [
                      {"kind": "other", "module": "", "line": "f a.py:1", "count": 1, "bytes": 8}]}}],
      "summary": {"passed": 0, "failed": 0, "skipped": 0, "exit_code": 3}})";
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
  json["run"] = to_json(small_report())["run"];
  const Report read = parse_report(json.dump(), "x");
  ASSERT_TRUE(read.of_programs());
  const TrialRecord& trial = read.trials[0];
  EXPECT_EQ(trial.name(), "program under lagging");
  EXPECT_EQ(trial.mode, Mode::math);
  EXPECT_EQ(trial.program->words, (std::vector<std::string>{"python3", "a.py"}));
  EXPECT_EQ(trial.program->exit_code, 7);
  EXPECT_EQ(trial.alive->parts.at(0).site, "f a.py:1");
  ASSERT_EQ(trial.verdicts.size(), 1u);
  EXPECT_EQ(trial.verdicts[0].status, Status::fail);
  EXPECT_EQ(trial.verdicts[0].why, "--max-peak: rank 0 allocated much");
}

/// As a run's folder has it: memory, spans and events are in other files alone.
Report without_exported(Report report) {
  for (TrialRecord& trial : report.trials)
    for (VariantRecord& variant : trial.variants)
      for (RankRecord& rank : variant.ranks) rank.memory.clear(), rank.spans = {};
  return report;
}

// Also what head_text leaves out and writes once is all there again.
TEST(Json, ReadsBackWhatItWrote) {
  Report odd = small_report();
  odd.trials[0].story = odd.run.host = "$0";
  for (TrialRecord& trial : odd.trials) trial.size = "$$ as often as there are trials, and long";
  for (const Report& report : {small_report(), gpu_report(), cut_report(), sample_report(2),
                               hostile_report(), filled_report(), odd}) {
    const std::string all = json_text(report);
    EXPECT_EQ(first_difference(json_text(parse_report(all, "x")), all), "");
    const std::string head = whole(head_text(report)), full = json_text(without_exported(report));
    Report trials = report;
    for (TrialRecord& trial : trials.trials) trial.program.reset();  // which is whole in both
    EXPECT_LT(whole(head_text(trials)).size(), json_text(without_exported(trials)).size() * 2 / 3);
    Report back = parse_report(head, "x");
    EXPECT_NE(json_text(back), full);
    for (std::size_t t = 0; t < report.trials.size(); ++t)
      for (std::size_t v = 0; v < report.trials[t].variants.size(); ++v)
        if (const auto text = details_text(report.trials[t].variants[v]); !text.empty())
          add_details(back.trials[t].variants[v], text, "x");
    EXPECT_EQ(first_difference(json_text(back), full), "");
  }
}

TEST(Json, SaysWhatIsWrongWithAHeadOrDetails) {
  const Report report = small_report();
  const std::string head = whole(head_text(report));
  EXPECT_EQ(why_refused(with(head, "\"$0\"", "\"$99999\"")).find("report.json"), 0u);
  EXPECT_THAT(why_refused(with(head, "\"$0\"", "\"$99999\"")),
              HasSubstr("'$99999' is not a place among the"));
  EXPECT_THAT(why_refused(with(head, "\"$0\"", "\"$x\"")), HasSubstr("'$x' is not a place"));
  EXPECT_THAT(why_refused(with(head, "\"scenario\":\"fsdp_prefetch\"", "\"scenario\":\"$99999\"")),
              HasSubstr("'$99999' is not a place"));
  EXPECT_THAT(why_refused(with(head, "\"shared\": [", "\"shared\": 1, \"\": [")),
              HasSubstr("shared: is number, not an array"));
  const auto refused = [&](const std::string& text) {
    Report mine = parse_report(head, "x");
    return refusal([&] { add_details(mine.trials[0].variants[0], text, "d.json"); });
  };
  const auto& variants = report.trials[0].variants;
  EXPECT_EQ(refused(details_text(variants[0])), kNothingRefused);
  EXPECT_EQ(refused(details_text(variants[1])),
            "d.json: these are not the details of record_stream");
  EXPECT_THAT(refused(with(details_text(variants[0]), "\"rank\":1", "\"rank\":7")),
              HasSubstr("is not a rank of report.json"));
  EXPECT_THAT(refused(with(details_text(variants[0]), "\"time\":[0,", "\"time\":[")),
              HasSubstr("where the columns before it have"));
  EXPECT_THAT(refused("{"), HasSubstr("cut off"));
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
  const auto read = [&](int times) {
    const std::string text =
        with(json_text(json), "\"times\": 98", "\"times\": " + std::to_string(times));
    return parse_report(text, "x").trials[0].variants[0].ranks[0].steps.size();
  };
  const auto most = static_cast<std::size_t>(kMostTrialSteps);  // in all: one step follows these
  EXPECT_EQ(read(kMostTrialSteps - 2), most - 1);
  EXPECT_EQ(read(kMostTrialSteps - 1), most);
  EXPECT_THAT(why_refused(with(json_text(json), "\"times\": 98",
                               "\"times\": " + std::to_string(kMostTrialSteps))),
              HasSubstr("steps"));
  for (const char* times : {"0", "-1", "100001", "1e9", "\"2\""})
    EXPECT_THAT(
        why_refused(with(json_text(json), "\"times\": 98", std::string("\"times\": ") + times)),
        HasSubstr("times"))
        << times;
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

TEST(Json, SaysWhatIsWrongInOneLine) {
  const std::string good = json_text(small_report());
  const std::pair<std::string, const char*> cases[] = {
      {"", "cut off"},
      {good.substr(0, good.size() / 2), "cut off"},
      {with(good, "\"trials\"", "trials"), "changed or is another"},
      {with(good, "\"3.2\"", "\"4.0\""),
       "schema version 4.0 where this tidemark reads 1.x, 2.x and 3.2"},
      {with(good, "\"kinds\": \"l", "\"kinds\": \"?"), "'?' is not one of the letters olcw"},
      {with(good, "\"stream\": [2, ", "\"stream\": [9, "), "index 9 is out of range for 3 names"},
      {with(good, "\"pending\": false", "\"pending\": 0"), "pending: is number, not true or false"},
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
      {with(good, "\"reserved\": [20971520, ", "\"reserved\": ["),
       "timeline.reserved: has 2 values where the columns before it have 3"},
      {with(good, "\"peak\": 5242880", "\"peak\": 1"), "differs from the last of 'steps'"},
      {"[]", "is array, not an object"},
      {"{}", "missing key 'schema'"}};
  for (const auto& [text, expected] : cases) {
    const std::string why = why_refused(text);
    EXPECT_THAT(why, HasSubstr(expected));
    EXPECT_THAT(why, StartsWith("report.json: "));
  }
}

TEST(Json, AFileThatDoesNotEndIsRefused) {
  EXPECT_EQ(refusal([] { read_bytes("/dev/zero", "", 4096); }),
            "/dev/zero: is a pipe or a device, not a file");
  EXPECT_EQ(refusal([] { read_bytes("/", "a file"); }), "/: is a folder, not a file: give a file");
}

TEST(Json, MissingFileSaysWhatToGive) {
  ScratchFolder folder;
  EXPECT_THAT(
      refusal([&] { read_report(folder.path()); }),
      HasSubstr("report.json: cannot be read (No such file or directory): give the folder"));
}

}  // namespace
}  // namespace tidemark
