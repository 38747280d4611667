// Pairs of step times, and the error that is reported of a prediction.
#include "reports/predicted/predicted.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "reports/testing/refusal.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrialRecord trial(const char* schedule, int ranks) {
  return {.scenario = "case",
          .size = "smoke",
          .schedule = schedule,
          .mode = Mode::math,
          .ranks = ranks,
          .steps = 4,
          .params = {{"layers", 2}},
          .variants = {{.name = "waste"},
                       {.name = "fix", .role = Role::fixed},
                       {.name = "other", .role = Role::fixed},
                       {.name = "wrong", .role = Role::control}}};
}

/// Steps of 1 ms, 1.2 ms, 0.5 ms and 1 ms, each after a first one that is long.
Report virtual_run() {
  Report out;
  out.run.device_kind = "virtual";
  out.run.profile = "h200-141g-measured";
  for (const char* schedule : {"lagging", "calibrated"}) {
    out.trials.push_back(trial(schedule, 1));
    const Ns long_step = schedule == std::string("lagging") ? 7'000'000 : 0;
    Ns steps[] = {1'000'000, 1'200'000, 500'000, 1'000'000};
    for (std::size_t v = 0; v < 4; ++v)
      out.trials.back().variants[v].step_time_ns = {90'000'000, steps[v] + long_step,
                                                    steps[v] + long_step, 80'000'000};
  }
  return out;
}

/// Medians of 2 ms, 1.2 ms and 0.125 ms: twice as long, the same, and a quarter.
Report gpu_run() {
  Report out;
  out.run.device_kind = "cuda";
  out.run.profile = "NVIDIA H200";
  out.trials = {trial("device", 1)};
  const Ns medians[] = {2'000'000, 1'200'000, 125'000, 9};
  for (std::size_t v = 0; v < 4; ++v) {
    const double ratio = static_cast<double>(medians[v]) / 2'000'000;
    out.trials[0].variants[v].timing = Timing{
        5, 15, medians[v], medians[v] - 1, medians[v] + 1, Timing::Ratio{ratio, ratio, ratio}};
  }
  return out;
}

TEST(Predicted, SaysHowFarStepTimesAndRatiosAreOff) {
  const Prediction p = predict(virtual_run(), gpu_run());
  ASSERT_EQ(p.trials.size(), 1u);
  EXPECT_EQ(p.trials[0].trial, "case/smoke/r1/math");
  const auto& steps = p.trials[0].steps;
  ASSERT_EQ(steps.size(), 3u) << "without the control";
  EXPECT_EQ(steps[0].predicted, 1'000'000);
  EXPECT_DOUBLE_EQ(steps[0].ratio(), 0.5);
  EXPECT_DOUBLE_EQ(steps[1].ratio(), 1);
  EXPECT_DOUBLE_EQ(steps[2].ratio(), 4);
  EXPECT_FALSE(steps[0].predicted_ratio) << "a baseline is 1 by definition";
  EXPECT_DOUBLE_EQ(steps[1].predicted_ratio.value(), 1.2);
  EXPECT_DOUBLE_EQ(steps[1].measured_ratio.value(), 0.6);
  EXPECT_EQ(p.steps.count, 3);
  EXPECT_DOUBLE_EQ(p.steps.median, 2) << "half is as far off as twice";
  EXPECT_DOUBLE_EQ(p.steps.largest, 4);
  EXPECT_EQ(p.steps.worst, "case/smoke/r1/math other");
  EXPECT_EQ(p.ratios.count, 2);
  EXPECT_DOUBLE_EQ(p.ratios.median, 5) << "between 1.2 / 0.6 and 0.5 / 0.0625";
  EXPECT_DOUBLE_EQ(p.ratios.largest, 8);
  EXPECT_EQ(p.exit_code(), 0);
  EXPECT_EQ(prediction_summary(p),
            "3 step times off by 2 times (median), 4 at most; 2 ratios to baseline by 5, 8");
}

TEST(Predicted, WhatWasAskedForMustBeTheSame) {
  const auto unpaired = [](auto change) {
    Report measured = gpu_run();
    change(measured.trials[0]);
    const Prediction p = predict(virtual_run(), measured);
    EXPECT_EQ(p.exit_code(), 4);
    EXPECT_EQ(p.unpaired.size(), 3u);
    EXPECT_THAT(prediction_text(p, virtual_run(), measured), HasSubstr("no step times\n"));
  };
  unpaired([](TrialRecord& t) { t.scenario = "another"; });
  unpaired([](TrialRecord& t) { t.size = "seed"; });
  unpaired([](TrialRecord& t) { t.ranks = 2; });
  unpaired([](TrialRecord& t) { t.mode = Mode::shapes; });
  unpaired([](TrialRecord& t) { t.steps = 3; });
  unpaired([](TrialRecord& t) { t.seed = 1; });
  unpaired([](TrialRecord& t) { t.params["layers"] = 3; });
  Report lagging = virtual_run();
  lagging.trials.pop_back();
  EXPECT_EQ(predict(lagging, gpu_run()).exit_code(), 4) << "no clock but the calibrated one";
}

TEST(Predicted, WhatHasNoTimesIsNamed) {
  Report predicted = virtual_run(), measured = gpu_run();
  predicted.trials[1].variants[1].step_time_ns = {5};
  measured.trials[0].variants[2].timing.reset();
  const Prediction p = predict(predicted, measured);
  EXPECT_EQ(p.steps.count, 1);
  EXPECT_EQ(p.ratios.count, 0);
  EXPECT_THAT(p.unpaired, ElementsAre("case/smoke/r1/math fix"));
  EXPECT_THAT(prediction_text(p, predicted, measured),
              HasSubstr("measured, but not predicted:\n  case/smoke/r1/math fix\n\nfarthest off: "
                        "the step of case/smoke/r1/math waste\n1 step time off by 2 times "
                        "(median), 2 at most\n"));
}

TEST(Predicted, WithoutTheBaselineThereAreNoRatios) {
  Report predicted = virtual_run();
  predicted.trials[1].variants.erase(predicted.trials[1].variants.begin());
  const Prediction p = predict(predicted, gpu_run());
  EXPECT_EQ(p.steps.count, 2);
  EXPECT_EQ(p.ratios.count, 0);
}

TEST(Predicted, TheMachinesMustBeTheRightOnes) {
  for (const auto& [a, b] : {std::pair{gpu_run(), virtual_run()}, {virtual_run(), virtual_run()}})
    EXPECT_THAT(refusal([&] { predict(a, b); }), HasSubstr("in this order; these are of '"));
}

TEST(Predicted, NotesSayWhatTheFiguresAreWorth) {
  Report measured = gpu_run();
  EXPECT_TRUE(predict(virtual_run(), measured).notes.empty());
  measured.run.profile = "rehearsal on the virtual device h100-80g";
  measured.run.sharing = "ranks 0, 1 on one GPU";
  measured.run.nccl = "2.28.9 (staged)";
  EXPECT_THAT(
      predict(virtual_run(), measured).notes,
      ElementsAre("a rehearsal: no figure here is from hardware",
                  "measured with ranks 0, 1 on one GPU; predicted for a GPU a rank",
                  "measured with collectives through the host's memory; predicted over links"));
}

TEST(Predicted, RendersATableAndJson) {
  Report measured = gpu_run();
  const Prediction p = predict(virtual_run(), measured);
  EXPECT_EQ(prediction_text(p, virtual_run(), measured),
            R"(predicted on the virtual h200-141g-measured, measured on NVIDIA H200

case/smoke/r1/math
  step of           predicted   measured  (quartiles)               ratio   to the baseline: predicted, measured
  waste (baseline)       1 ms       2 ms  (2 ms - 2 ms)             0.500
  fix                  1.2 ms     1.2 ms  (1.2 ms - 1.2 ms)         1.000                        1.200     0.600
  other                500 us     125 us  (125 us - 125 us)         4.000                        0.500     0.062

farthest off: the step of case/smoke/r1/math other
              the ratio of case/smoke/r1/math other
3 step times off by 2 times (median), 4 at most; 2 ratios to baseline by 5, 8
)");
  const auto json = nlohmann::json::parse(prediction_json(p, virtual_run(), measured));
  EXPECT_EQ(json["step_times"]["median_times_off"], 2);
  EXPECT_EQ(json["ratios_to_baseline"]["largest_times_off"], 8);
  EXPECT_EQ(json["trials"][0]["steps"][0]["predicted_ratio_to_baseline"], nullptr);
  EXPECT_EQ(json["trials"][0]["steps"][1]["measured_ns"], 1'200'000);
  EXPECT_EQ(json["measured"]["device"]["profile"], "NVIDIA H200");
}

TEST(Predicted, NoNameBreaksOutOfItsLine) {
  Report predicted = hostile_report(), measured = hostile_report();
  predicted.run.device_kind = "virtual";
  measured.run.device_kind = "cuda";
  for (auto& trial : predicted.trials) trial.schedule = "calibrated";
  for (Report* report : {&predicted, &measured})
    for (auto& trial : report->trials)
      for (auto& variant : trial.variants) {
        variant.step_time_ns = {3, 2, 1};
        variant.timing = Timing{1, 2, 2, 2, 2, {}};
      }
  const Prediction p = predict(predicted, measured);
  EXPECT_GT(p.steps.count, 0);
  const std::string text = prediction_text(p, predicted, measured);
  EXPECT_THAT(text, HasSubstr(" ../../x"));
  EXPECT_THAT(text, Not(HasSubstr("\n../../x")));
  const auto json = nlohmann::json::parse(prediction_json(p, predicted, measured));
  EXPECT_EQ(json["step_times"]["count"], p.steps.count);
}

}  // namespace
}  // namespace tidemark
