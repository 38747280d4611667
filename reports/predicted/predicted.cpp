#include "reports/predicted/predicted.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reports/overview.h"
#include "reports/rank_place.h"
#include "reports/units.h"

namespace tidemark {
namespace {

// All but the schedule, which is calibrated here and the device's own there.
bool same_work(const TrialRecord& a, const TrialRecord& b) {
  const RankPlace one = rank_place(a, "", 0), two = rank_place(b, "", 0);
  return one.trial == two.trial && one.params == two.params;
}

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// 0 where there is no step but the first.
Ns predicted_step(const VariantRecord& variant) {
  if (variant.step_time_ns.size() < 2) return 0;
  return static_cast<Ns>(
      std::llround(middle({variant.step_time_ns.begin() + 1, variant.step_time_ns.end()})));
}

void add_steps(const TrialRecord* predicted, const TrialRecord& measured, Prediction& out) {
  TrialPrediction trial{one_line(rank_place(measured, "", 0).trial), {}};
  const auto base = std::ranges::find(measured.variants, Role::baseline, &VariantRecord::role);
  const VariantRecord* first = predicted != nullptr && base != measured.variants.end()
                                   ? variant_in(*predicted, base->name)
                                   : nullptr;
  const Ns base_step = first != nullptr ? predicted_step(*first) : 0;
  for (const VariantRecord& variant : measured.variants) {
    if (variant.role == Role::control || !variant.timing || variant.timing->median <= 0) continue;
    const VariantRecord* other =
        predicted != nullptr ? variant_in(*predicted, variant.name) : nullptr;
    const Ns step = other != nullptr ? predicted_step(*other) : 0;
    if (step <= 0) {
      out.unpaired.push_back(trial.trial + " " + one_line(variant.name));
      continue;
    }
    StepPrediction mine{one_line(variant.name), &variant == &*base, step, *variant.timing, {}, {}};
    if (!mine.baseline && base_step > 0 && variant.timing->ratio &&
        variant.timing->ratio->median > 0) {
      mine.predicted_ratio = static_cast<double>(step) / static_cast<double>(base_step);
      mine.measured_ratio = variant.timing->ratio->median;
    }
    trial.steps.push_back(std::move(mine));
  }
  if (!trial.steps.empty()) out.trials.push_back(std::move(trial));
}

TimesOff times_off(const std::vector<TrialPrediction>& trials, auto ratio) {
  TimesOff off;
  std::vector<double> all;
  for (const TrialPrediction& trial : trials)
    for (const StepPrediction& step : trial.steps) {
      const std::optional<double> one = ratio(step);
      if (!one) continue;
      all.push_back(std::max(*one, 1 / *one));
      if (all.back() > off.largest || all.size() == 1) off.worst = trial.trial + " " + step.variant;
      off.largest = std::max(off.largest, all.back());
    }
  off.count = static_cast<int>(all.size());
  if (!all.empty()) off.median = middle(std::move(all));
  return off;
}

std::vector<std::string> notes_on(const RunRecord& measured) {
  std::vector<std::string> notes;
  if (measured.profile.starts_with("rehearsal"))
    notes.push_back("a rehearsal: no figure here is from hardware");
  if (!measured.sharing.empty())
    notes.push_back(
        fmt::format("measured with {}; predicted for a GPU a rank", one_line(measured.sharing)));
  if (measured.nccl.ends_with("(staged)"))
    notes.push_back("measured with collectives through the host's memory; predicted over links");
  return notes;
}

}  // namespace

double StepPrediction::ratio() const {
  return static_cast<double>(predicted) / static_cast<double>(measured.median);
}

Prediction predict(const Report& predicted, const Report& measured) {
  const auto device = [](const RunRecord& run) {
    return one_line(fmt::format("{} {}", run.device_kind, run.profile));
  };
  if (predicted.run.device_kind != "virtual" || measured.run.device_kind == "virtual")
    throw std::runtime_error(
        fmt::format("predicted needs a run on the virtual device and one on a GPU, in this order; "
                    "these are of '{}' and '{}'",
                    device(predicted.run), device(measured.run)));
  Prediction out;
  for (const TrialRecord& trial : measured.trials) {
    const auto same = std::ranges::find_if(predicted.trials, [&](const TrialRecord& one) {
      return one.schedule == "calibrated" && same_work(one, trial);
    });
    add_steps(same == predicted.trials.end() ? nullptr : &*same, trial, out);
  }
  out.steps =
      times_off(out.trials, [](const StepPrediction& step) { return std::optional(step.ratio()); });
  out.ratios = times_off(out.trials, [](const StepPrediction& step) {
    return step.predicted_ratio ? std::optional(*step.predicted_ratio / *step.measured_ratio)
                                : std::nullopt;
  });
  out.notes = notes_on(measured.run);
  return out;
}

}  // namespace tidemark
