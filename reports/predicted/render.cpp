#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "reports/predicted/predicted.h"
#include "reports/units.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

Json off_json(const TimesOff& off) {
  if (off.count == 0) return {{"count", 0}};
  return {{"count", off.count},
          {"median_times_off", off.median},
          {"largest_times_off", off.largest},
          {"worst", off.worst}};
}

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json step_json(const StepPrediction& step) {
  return {{"variant", step.variant},
          {"predicted_ns", step.predicted},
          {"measured_ns", step.measured.median},
          {"measured_quartiles_ns", {step.measured.low, step.measured.high}},
          {"samples", step.measured.samples},
          {"predicted_to_measured", step.ratio()},
          {"predicted_ratio_to_baseline", or_null(step.predicted_ratio)},
          {"measured_ratio_to_baseline", or_null(step.measured_ratio)}};
}

Json run_json(const RunRecord& run) {
  return {{"id", run.id},
          {"started", run.started},
          {"device", {{"kind", run.device_kind}, {"profile", run.profile}}},
          {"tidemark", run.tidemark},
          {"git", run.git}};
}

}  // namespace

std::string prediction_summary(const Prediction& prediction) {
  const TimesOff &steps = prediction.steps, &ratios = prediction.ratios;
  if (steps.count == 0) return "no step times";
  std::string text =
      fmt::format("{} step time{} off by {:.3g} times (median), {:.3g} at most", steps.count,
                  steps.count == 1 ? "" : "s", steps.median, steps.largest);
  if (ratios.count > 0)
    text += fmt::format("; {} ratio{} to baseline by {:.3g}, {:.3g}", ratios.count,
                        ratios.count == 1 ? "" : "s", ratios.median, ratios.largest);
  return text;
}

std::string prediction_text(const Prediction& prediction, const Report& predicted,
                            const Report& measured) {
  std::string text = fmt::format("predicted on the virtual {}, measured on {}\n",
                                 one_line(predicted.run.profile), one_line(measured.run.profile));
  for (const std::string& note : prediction.notes) text += fmt::format("note: {}\n", note);
  std::size_t width = 10;
  for (const auto& trial : prediction.trials)
    for (const auto& step : trial.steps)
      width = std::max(width, step.variant.size() + (step.baseline ? 11 : 0));
  for (const auto& trial : prediction.trials) {
    text += fmt::format(
        "\n{}\n  {:<{}}  {:>9}  {:>9}  {:<20}  {:>9}   to the baseline: predicted, "
        "measured\n",
        trial.trial, "step of", width, "predicted", "measured", "(quartiles)", "ratio");
    for (const auto& step : trial.steps) {
      text += fmt::format(
          "  {:<{}}  {:>9}  {:>9}  {:<20}  {:>9.3f}",
          step.variant + (step.baseline ? " (baseline)" : ""), width, duration(step.predicted),
          duration(step.measured.median),
          fmt::format("({} - {})", duration(step.measured.low), duration(step.measured.high)),
          step.ratio());
      if (step.predicted_ratio)
        text += fmt::format("   {:>26.3f}  {:>8.3f}", *step.predicted_ratio, *step.measured_ratio);
      text += "\n";
    }
  }
  if (!prediction.unpaired.empty()) {
    text += "\nmeasured, but not predicted:\n";
    for (const std::string& each : prediction.unpaired) text += fmt::format("  {}\n", each);
  }
  text += "\n";
  if (prediction.steps.count > 0)
    text += fmt::format("farthest off: the step of {}\n", prediction.steps.worst);
  if (prediction.ratios.count > 0)
    text += fmt::format("              the ratio of {}\n", prediction.ratios.worst);
  return text + prediction_summary(prediction) + "\n";
}

std::string prediction_json(const Prediction& prediction, const Report& predicted,
                            const Report& measured) {
  Json trials = Json::array();
  for (const auto& trial : prediction.trials) {
    Json steps = Json::array();
    for (const auto& step : trial.steps) steps.push_back(step_json(step));
    trials.push_back({{"trial", trial.trial}, {"steps", std::move(steps)}});
  }
  return json_text(Json{{"schema", "tidemark/predicted"},
                        {"schema_version", "1.0"},
                        {"predicted", run_json(predicted.run)},
                        {"measured", run_json(measured.run)},
                        {"notes", prediction.notes},
                        {"step_times", off_json(prediction.steps)},
                        {"ratios_to_baseline", off_json(prediction.ratios)},
                        {"unpaired", prediction.unpaired},
                        {"trials", std::move(trials)}});
}

}  // namespace tidemark
