// report.json from anywhere: what was written is read back, and whatever was done to it is either
// still a report or one line that says what is wrong.
#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/testing/property.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using testing::accepts;
using testing::damaged;
using testing::for_all;

// A text that UTF-8 can hold: the writer's business is other bytes (json_test).
rc::Gen<std::string> names() {
  return rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
      {{9, rc::gen::inRange<char>(32, 127)}, {1, rc::gen::element('\n', '\t', '\x01', '"', '<')}}));
}

TEST(JsonProperties, WhateverIsWrittenIsReadBack) {
  const auto any_bits = rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
  for_all(100, [&] {
    Report report = small_report();
    TrialRecord& trial = report.trials[0];
    trial.scenario = *names();
    trial.seed = *rc::gen::arbitrary<std::uint64_t>();
    trial.params[*names()] = *rc::gen::arbitrary<std::int64_t>();
    trial.params[*names()] = *names();
    VariantRecord& variant = trial.variants[0];
    variant.name = *names();
    variant.error = *names();
    variant.step_time_ns = *rc::gen::arbitrary<std::vector<Ns>>();
    std::vector<double> losses{0.0, -0.0, 5e-324, 1e16, 0.1, 1.7976931348623157e308, HUGE_VAL};
    for (int i = 0; i < 40; ++i) losses.push_back(std::bit_cast<double>(*any_bits));
    for (const double loss : losses) variant.loss.push_back({0, loss});
    variant.ranks[0].timeline = noise(*rc::gen::inRange<std::size_t>(0, 50), 3);
    variant.ranks[0].counters.collectives[*names()] = *rc::gen::arbitrary<std::int64_t>();
    Verdict& verdict = trial.verdicts[0];
    verdict.why = *names();
    verdict.values[*names()] = *rc::gen::arbitrary<double>();
    report.run.argv.push_back(*names());
    report.run.env[*names()] = *names();
    const std::string text = json_text(report);
    RC_ASSERT(json_text(parse_report(text, "x")) == text);
  });
}

TEST(JsonProperties, ADamagedFileIsAReportOrAnErrorOfOneLine) {
  const std::string text = json_text(small_report());
  int refused = 0;
  for_all(3000, [&] {
    const std::string wounded = *damaged(text);
    refused +=
        !accepts<std::runtime_error>([&] { json_text(parse_report(wounded, "report.json")); });
  });
  EXPECT_GT(refused, 1000);
}

// Values of another kind in any place: deeper into the reader than damaged text comes.
TEST(JsonProperties, RandomValuesInRandomPlacesAreAReportOrAnErrorOfOneLine) {
  const auto whole = Json::parse(json_text(small_report()));
  const auto flat = whole.flatten();
  std::vector<std::string> places;
  for (const auto& [place, value] : flat.items()) {
    const nlohmann::ordered_json::json_pointer leaf(place);
    for (auto at = leaf; !at.empty(); at = at.parent_pointer()) places.push_back(at.to_string());
  }
  std::string deep;
  for (int i = 0; i < 2000; ++i) deep += '[';
  const std::vector<Json> others{nullptr,
                                 true,
                                 -1,
                                 0.5,
                                 1e300,
                                 "",
                                 "text",
                                 "nan",
                                 "<script>",
                                 std::string(5000, 'x'),
                                 std::numeric_limits<std::uint64_t>::max(),
                                 std::numeric_limits<std::int64_t>::min(),
                                 Json::array(),
                                 Json::object(),
                                 Json::array({1, "2", nullptr}),
                                 Json{{"low", 1}, {"high", 0}}};
  int refused = 0;
  for_all(600, [&] {
    Json edited = whole;
    const auto place = *rc::gen::elementOf(places);
    edited[Json::json_pointer(place)] = others[*rc::gen::inRange<std::size_t>(0, others.size())];
    const std::string text = edited.dump();
    refused += !accepts<std::runtime_error>([&] { json_text(parse_report(text, "report.json")); });
  });
  EXPECT_GT(refused, 300);
  EXPECT_FALSE(accepts<std::runtime_error>([&] { parse_report(deep, "report.json"); }));
}

// No verdict becomes right by hand: a pass outside of what was expected is found.
TEST(JsonProperties, AFalsePassIsDetected) {
  const ScratchFolder folder;
  const auto whole = Json::parse(json_text(small_report()));
  std::vector<std::size_t> passes;
  const auto& verdicts = whole["trials"][0]["verdicts"];
  for (std::size_t i = 0; i < verdicts.size(); ++i)
    if (verdicts[i]["status"] == "pass" && verdicts[i]["measured"].is_number() &&
        verdicts[i]["expected"]["high"].is_number())
      passes.push_back(i);
  ASSERT_FALSE(passes.empty());
  for_all(150, [&] {
    Json edited = whole;
    Json& verdict = edited["trials"][0]["verdicts"][*rc::gen::elementOf(passes)];
    const double high = verdict["expected"]["high"].get<double>();
    const auto more = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 40);
    verdict["measured"] = high + static_cast<double>(more);
    std::ofstream(folder / "report.json") << edited.dump();
    RC_ASSERT(!accepts<std::runtime_error>([&] { read_report(folder / "report.json"); }));
  });
}

}  // namespace
}  // namespace tidemark
