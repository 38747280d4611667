#include "reports/compare/benchmarks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/compare/testing.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json rows_of(const Report& report) { return Json::parse(whole(benchmark_json(report))); }
Benchmarks read(const Json& json) { return parse_benchmarks(json.dump(), "benchmark.json"); }

Comparison against(const Json& base, const Json& fresh, bool allow_missing = false) {
  return compare(read(base), read(fresh), CompareOptions{{}, allow_missing});
}

std::vector<std::string> changes(const Comparison& comparison) {
  std::vector<std::string> out;
  for (const Change& one : comparison.changes)
    out.push_back(one.place.trial + " " + one.metric + " " + name_of(one.effect));
  return out;
}

/// The one row of this variant under lagging.
Json& row(Json& file, const std::string& variant) {
  for (Json& each : file["benchmarks"])
    if (each["name"].get<std::string>().ends_with("/lagging/" + variant + "/manual_time"))
      return each;
  throw std::runtime_error("no row of " + variant);
}

TEST(Benchmarks, ARunsFileHasEveryPairAndNoDifferenceFromItself) {
  const Json file = rows_of(small_report());
  const Comparison same = against(file, file);
  EXPECT_TRUE(same.same());
  EXPECT_GT(same.metrics, 20);
  EXPECT_TRUE(is_benchmarks(file.dump()));
  EXPECT_TRUE(is_benchmarks("\n{ \n \"context\": {"));
  EXPECT_FALSE(is_benchmarks("{\"schema\": \"tidemark/report\", \"context\": 1}"));
  EXPECT_FALSE(is_benchmarks(""));
}

TEST(Benchmarks, EveryFigureHasItsWorseDirection) {
  const Json base = rows_of(small_report());
  const auto changed = [&](const char* name, double by) {
    Json fresh = base;
    Json& value = row(fresh, "stash")[name];
    value = value.get<double>() + by;
    return changes(against(base, fresh));
  };
  const std::string place = "fsdp_prefetch/smoke/r2/math/lagging/stash/manual_time ";
  for (const char* name : {"requested", "allocated", "active", "reserved"}) {
    const std::string counter = std::string("peak_") + name,
                      metric = "memory/" + std::string(name) + "/peak ";
    EXPECT_THAT(changed(counter.c_str(), 512), ElementsAre(place + metric + "regression"));
    EXPECT_THAT(changed(counter.c_str(), -512), ElementsAre(place + metric + "improvement"));
  }
  EXPECT_THAT(changed("saved", -1), ElementsAre(place + "saving/saved regression"));
  EXPECT_THAT(changed("collectives", 1), ElementsAre(place + "counters/collectives regression"));
  EXPECT_THAT(changed("collective_bytes", 1),
              ElementsAre(place + "counters/collective_bytes regression"));
  EXPECT_THAT(changed("retries", 1), ElementsAre(place + "counters/retries regression"));
  EXPECT_THAT(changed("real_time", 1), ElementsAre(place + "time/step regression"));
  EXPECT_THAT(changed("real_time", 0.1), ElementsAre());  // within 5 %
  EXPECT_THAT(changed("cpu_time", 1e9), ElementsAre());
}

TEST(Benchmarks, WhatIsMissingOrEndsInAnErrorIsARegression) {
  const Json base = rows_of(small_report());
  Json fewer = base;
  fewer["benchmarks"].erase(fewer["benchmarks"].size() - 1);
  EXPECT_EQ(against(base, fewer).exit_code(), 1);
  EXPECT_EQ(against(base, fewer, /*allow_missing=*/true).exit_code(), 0);
  EXPECT_EQ(against(fewer, base).exit_code(), 0);
  Json broke = base;
  row(broke, "stash")["error_occurred"] = true;
  row(broke, "stash")["error_message"] = "out of memory";
  const Comparison comparison = against(base, broke);
  ASSERT_EQ(comparison.turns.size(), 1u);
  EXPECT_EQ(comparison.turns[0].why, "out of memory");
  EXPECT_EQ(comparison.exit_code(), 1);
  Json none = base;
  none["benchmarks"] = Json::array();
  EXPECT_EQ(against(none, base).exit_code(), 4);
}

TEST(Benchmarks, RepetitionsAreTheirMedianAndAggregatesAloneAreRead) {
  const auto entry = [](double time, const char* aggregate = nullptr) {
    Json out{{"name", "a"},
             {"run_name", "a"},
             {"run_type", aggregate ? "aggregate" : "iteration"},
             {"real_time", time},
             {"time_unit", "us"}};
    if (aggregate) out["aggregate_name"] = aggregate;
    return out;
  };
  const auto time = [](std::vector<Json> rows) {
    const auto read_back = read({{"context", Json::object()}, {"benchmarks", rows}});
    return read_back.entries.at(0).figures.at(0).value;
  };
  EXPECT_EQ(time({entry(5), entry(1), entry(2)}), 2000);
  EXPECT_EQ(time({entry(5), entry(1)}), 3000);
  EXPECT_EQ(time({entry(5), entry(1), entry(4, "mean"), entry(7, "median")}), 3000);
  EXPECT_EQ(time({entry(4, "mean"), entry(7, "median"), entry(0.1, "cv")}), 7000);
}

TEST(Benchmarks, BadFilesAreALine) {
  const auto refused = [](const std::string& text) -> std::string {
    try {
      parse_benchmarks(text, "A.json");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused("{\"context\": {"), HasSubstr("A.json: not JSON"));
  EXPECT_THAT(refused("{\"context\": " + std::string(2000, '[')), HasSubstr("A.json: is nested"));
  EXPECT_THAT(refused(R"({"context": {}})"), HasSubstr("A.json: missing key 'benchmarks'"));
  EXPECT_THAT(refused(R"({"context": 1, "benchmarks": []})"), HasSubstr("A.json: context"));
  EXPECT_THAT(refused(R"({"context": {}, "benchmarks": [{"name": "a"}]})"), HasSubstr("real_time"));
  EXPECT_THAT(
      refused(
          R"({"context": {}, "benchmarks": [{"name": "a", "real_time": 1, "time_unit": "h"}]})"),
      HasSubstr("time_unit is 'h'"));
  EXPECT_THAT(
      refused(R"({"context": {}, "benchmarks": [{"name": "a", "real_time": 1, "saved": "x"}]})"),
      HasSubstr("saved"));
}

}  // namespace
}  // namespace tidemark
