#include "reports/saving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/record/units.h"

namespace tidemark {
namespace {

/// By operation, in the last step, on the rank that calls it most: the first step makes what later
/// ones use again.
std::map<std::string, std::int64_t> calls_a_step(const VariantRecord& variant) {
  std::map<std::string, std::int64_t> most;
  for (const RankRecord& rank : variant.ranks)
    if (!rank.steps.empty())
      for (const auto& [operation, calls] : rank.steps.back().collectives)
        most[operation] = std::max(most[operation], calls);
  return most;
}

const Verdict* verdict_of(const TrialRecord& trial, const std::string& variant, const char* name) {
  const auto match = std::ranges::find_if(trial.verdicts, [&](const Verdict& verdict) {
    return verdict.variant == variant && verdict.name == name;
  });
  return match == trial.verdicts.end() ? nullptr : &*match;
}

void set_price(Saving& saving, const TrialRecord& trial, const VariantRecord& base,
               const VariantRecord& fix) {
  const Ns before = typical_step_time(base), after = typical_step_time(fix);
  if (before > 0 && after > 0)
    saving.time_ratio = fix.timing && fix.timing->ratio
                            ? fix.timing->ratio->median
                            : static_cast<double>(after) / static_cast<double>(before);
  saving.by_model = !fix.timing;
  auto more = calls_a_step(fix);
  for (const auto& [operation, calls] : calls_a_step(base)) more[operation] -= calls;
  for (const auto& [operation, calls] : more)
    if (calls != 0) saving.extra.emplace_back(operation, calls);
  const Verdict* blocks = verdict_of(trial, fix.name, "cost/recomputed_blocks");
  if (blocks != nullptr) saving.recomputed = blocks->measured;
}

}  // namespace

Bytes worst_peak(const VariantRecord& variant, Statistic statistic) {
  Bytes worst = 0;
  for (const RankRecord& rank : variant.ranks) worst = std::max(worst, rank.peak(statistic));
  return worst;
}

std::optional<Bytes> peak_of_any_step(const VariantRecord& variant, Statistic statistic) {
  std::optional<Bytes> out;
  for (const RankRecord& rank : variant.ranks)
    for (const Step& step : rank.steps)
      for (const Phase& phase : step.phases) out = std::max(out.value_or(0), phase[statistic].peak);
  return out;
}

std::vector<Saving> savings_of(const TrialRecord& trial) {
  const auto ran = [](const VariantRecord& one) {
    return std::ranges::any_of(one.ranks,
                               [](const RankRecord& rank) { return !rank.steps.empty(); });
  };
  const auto base = std::ranges::find_if(trial.variants, [&](const VariantRecord& one) {
    return one.role == Role::baseline && ran(one);
  });
  std::vector<Saving> out;
  for (const VariantRecord& fix : trial.variants) {
    if (fix.role != Role::fixed || !ran(fix)) continue;
    Saving saving{.fix = fix.name, .statistic = trial.statistic};
    saving.after = worst_peak(fix, trial.statistic);
    if (const Verdict* step = verdict_of(trial, fix.name, "saving/step")) {
      saving.judged = step->status;
      saving.step = step;
      saving.none_predicted = step->high && *step->high <= 0;
    }
    if (base != trial.variants.end()) {
      saving.baseline = base->name;
      saving.before = worst_peak(*base, trial.statistic);
      set_price(saving, trial, *base, fix);
    }
    out.push_back(std::move(saving));
  }
  return out;
}

std::string price_text(const Saving& saving) {
  std::string out = saving.time_ratio ? fmt::format("{:.3f}x step time{}", *saving.time_ratio,
                                                    saving.by_model ? " by the model" : "")
                                      : "";
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const auto& [operation, calls] : saving.extra)
    add(fmt::format("{:+} {} a step", calls, one_line(operation)));
  if (saving.recomputed && *saving.recomputed != 0)
    add(plural(static_cast<std::int64_t>(*saving.recomputed), "block") + " recomputed");
  return out;
}

ByteUnit saving_unit(Bytes largest) {
  if (largest >= Bytes{1} << 30) return {"GiB", 1 << 30, 2};
  return unit_for(largest);
}

std::string saved_text(const Saving& saving, const ByteUnit& unit, const std::string& name) {
  if (!saving.before) return "not judged: no baseline ran";
  const double share = *saving.before == 0 ? 0
                                           : 100.0 * static_cast<double>(saving.saved()) /
                                                 static_cast<double>(*saving.before);
  std::string out = fmt::format("{}{} ({:.{}f} %)", unit(saving.saved()), name, share,
                                std::abs(share) < 1 ? 2 : 0);
  if (saving.none_predicted && saving.saved() == 0) out = "no saving predicted";
  if (saving.judged == Status::fail) out += ", not as predicted";
  if (!saving.judged || saving.judged == Status::skip) out += ", not judged";
  return out;
}

std::string saved_text(const Saving& saving) {
  const ByteUnit unit = saving_unit(std::max(saving.before.value_or(0), saving.after));
  return saved_text(saving, unit, fmt::format(" {}", unit.name));
}

const TrialRecord* telling_trial(const Overview& overview) {
  const TrialRecord* telling = nullptr;
  Bytes most = 0;
  for (const TrialRecord* trial : overview.trials) {
    const std::vector<Saving> all = savings_of(*trial);
    Bytes best = std::numeric_limits<Bytes>::min();
    for (const Saving& one : all) best = std::max(best, one.saved());
    if (all.empty() || (telling != nullptr && best <= most)) continue;
    telling = trial;
    most = best;
  }
  return telling;
}

std::optional<ResultTable> result_of(const Overview& overview) {
  const TrialRecord* telling = telling_trial(overview);
  if (telling == nullptr) return std::nullopt;
  std::vector<Saving> savings = savings_of(*telling);
  for (const TrialRecord* trial : overview.trials)  // the one with a clock
    for (const Saving& one : savings_of(*trial)) {
      const auto same = std::ranges::find(savings, one.fix, &Saving::fix);
      if (!one.time_ratio || same == savings.end() || same->time_ratio) continue;
      same->time_ratio = one.time_ratio;
      same->by_model = one.by_model;
    }
  Bytes largest = 0;
  for (const Saving& one : savings)
    largest = std::max({largest, one.before.value_or(0), one.after});
  const ByteUnit unit = saving_unit(largest);
  const std::string base = savings.front().baseline;
  ResultTable table;
  table.title = fmt::format("{} memory at its highest in a step, worst rank, {}, under {}{}",
                            name_of(telling->statistic), unit.name, one_line(telling->schedule),
                            base.empty() ? "" : fmt::format(", against {}", one_line(base)));
  for (const Saving& one : savings) {
    table.rows.push_back(
        {one_line(one.fix),
         fmt::format("{} -> {}", one.before ? unit(*one.before) : "-", unit(one.after)),
         saved_text(one, unit), price_text(one)});
  }
  return table;
}

}  // namespace tidemark
