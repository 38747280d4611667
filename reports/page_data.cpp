#include "reports/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "harness/memory/process_record.h"
#include "harness/memory/record_bytes.h"
#include "harness/memory/step.h"
#include "harness/record/gzip.h"
#include "harness/record/json_writer.h"
#include "harness/record/terms.h"
#include "reports/cause.h"
#include "reports/compare/pairs.h"
#include "reports/curves/picture.h"
#include "reports/overview.h"
#include "reports/picture_json.h"
#include "reports/saving.h"
#include "reports/write.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFewestMoments = 200;

Curve curve_of(const VariantRecord& variant) {
  Curve out{variant.name, {}};
  for (const LossPoint& point : variant.loss)
    if (point.value) out.points.push_back({point.step, *point.value});
  return out;
}

/// The loss of a variant beside the baseline's, where it has other bits at steps enough to judge.
Json noise_json(const TrialRecord& trial, const VariantRecord& variant) {
  const auto base = std::ranges::find(trial.variants, Role::baseline, &VariantRecord::role);
  if (base == trial.variants.end() || variant.role == Role::baseline) return nullptr;
  const CurveParity c = parity(curve_of(*base), curve_of(variant), {});
  if (c.different == 0 || !c.noise) return nullptr;
  Json out = Json::parse(curves_picture(c));
  out["verdict"] = verdict_text(c, {});
  return out;
}

struct Assertion {
  std::size_t trial;
  std::vector<const Verdict*> verdicts;
  bool failed;
};

std::vector<Assertion> assertions_of(const Report& report) {
  std::vector<Assertion> out;
  for (std::size_t t = 0; t < report.trials.size(); ++t)
    for (std::vector<const Verdict*>& verdicts : by_assertion(report.trials[t])) {
      const bool failed = std::ranges::any_of(
          verdicts, [](const Verdict* one) { return one->status == Status::fail; });
      out.push_back({t, std::move(verdicts), failed});
    }
  return out;
}

/// Counts of a variant's verdicts by status, also of those that are left out.
Json tallies(const TrialRecord& trial) {
  std::map<std::string, std::array<int, 3>> counts;
  for (const Verdict& verdict : trial.verdicts)
    ++counts[verdict.variant][static_cast<std::size_t>(verdict.status)];
  Json out = Json::object();
  for (const auto& [variant, count] : counts)
    out[variant] = {{"pass", count[0]}, {"fail", count[1]}, {"skip", count[2]}};
  return out;
}

/// Uses of freed memory come first, then larger races.
bool worse_race(const Race& a, const Race& b) {
  return std::pair(a.kind != "freed", -a.bytes) < std::pair(b.kind != "freed", -b.bytes);
}

Json rank_json(const RankRecord& rank, const PageBudget& budget) {
  std::vector<Race> races = rank.races;
  std::ranges::stable_sort(races, worse_race);
  races.resize(std::min(races.size(), budget.races));
  Json out = json_of(
      rank, {"rank", "phases", "counters", "outside_allocator", "outside_owners", "unheld"});
  out.update({{"races", json_of(races)}, {"races_in_all", rank.races.size()}});
  return out;
}

/// The saving's formula, and the amounts that it is the sum of: null where it is no sum of amounts.
Json formula_json(const TrialRecord& trial, const Verdict* step) {
  if (step == nullptr || step->formula.empty()) return {{"formula", ""}, {"terms", nullptr}};
  Json terms;
  if (const auto all = terms_of({step->formula, step->values}, trial.symbols)) {
    terms = Json::array();
    for (const Term& term : *all) {
      Json& added = terms.emplace_back(json_of(*term.symbol, {"name", "what", "kinds"}));
      added.update({{"times", term.times}, {"bytes", term.bytes}});
    }
  }
  return {{"formula", step->formula}, {"terms", std::move(terms)}};
}

Json savings_json(const TrialRecord& trial) {
  Json out = Json::array();
  for (const Saving& one : savings_of(trial)) {
    out.push_back({{"fix", one.fix},
                   {"baseline", text_or_null(one.baseline)},
                   {"statistic", name_of(one.statistic)},
                   {"before", one.before ? Json(*one.before) : Json()},
                   {"after", one.after},
                   {"saved", saved_text(one)},
                   {"judged", one.judged ? Json(name_of(*one.judged)) : Json()},
                   {"price", price_text(one)}});
    out.back().update(formula_json(trial, one.step));
  }
  return out;
}

/// [[what, path below the run's folder], ...]
Json files_json(const VariantRecord& variant) {
  Json out = Json::array();
  for (const FileBeside& file : variant.files)
    if (file.what != "details") out.push_back({file.what, file.path});
  return out;
}

/// The outcome of every scenario.
Json outcomes(const std::vector<Overview>& groups) {
  std::map<std::string, std::vector<const Overview*>> scenarios;
  for (const Overview& group : groups) scenarios[group.trials[0]->scenario].push_back(&group);
  Json out = Json::object();
  for (const auto& [name, all] : scenarios) {
    const GroupOutcome outcome = outcome_of(all);
    out[name] = {{"status", name_of(outcome.status)}, {"text", outcome.text}};
  }
  return out;
}

/// Pictures of variants, of the rank with the highest peak of those whose memory was kept, in bytes
/// of the allocator's blocks.
class Pictures {
 public:
  Pictures(const Report& report, std::size_t moments) {
    for (const TrialRecord& trial : report.trials)
      for (const VariantRecord& variant : trial.variants) add(variant, moments);
  }

  /// The pictures with so many moments, equal ones once, and the place of each variant's.
  struct Placed {
    Json all = Json::array(), calls;
    std::unordered_map<const VariantRecord*, std::size_t> places;
  };
  Placed placed(const Report& report, std::size_t moments) const {
    Placed out;
    std::map<std::string, std::size_t> known;
    PageCalls calls;
    for (const TrialRecord& trial : report.trials)
      for (const VariantRecord& variant : trial.variants) {
        const auto picture = pictures_.find(&variant);
        if (picture == pictures_.end()) continue;
        const std::vector<std::int64_t> of_page = calls.take(picture->second);
        Json json = picture_json(thinned(picture->second, moments), of_page);
        json["names"] = {picture->second.where};
        const auto [place, fresh] = known.try_emplace(json.dump(), out.all.size());
        if (fresh) out.all.push_back(std::move(json));
        out.places[&variant] = place->second;
      }
    out.calls = calls.json();
    return out;
  }

 private:
  void add(const VariantRecord& variant, std::size_t moments) {
    if (auto picture = picture_of(variant, moments))
      pictures_.emplace(&variant, *std::move(picture));
  }

  std::map<const VariantRecord*, MemoryPicture> pictures_;
};

/// The figures of another run's variant that stand beside.
Json base_json(const VariantRecord& variant) {
  Json out;
  for (Statistic s : {Statistic::allocated, Statistic::active, Statistic::reserved})
    out[name_of(s)] = worst_peak(variant, s);
  return out;
}

/// A page's data, of which no more than one trial is there as JSON at a time.
class PageParts {
 public:
  PageParts(const Report& report, const Pictures& pictures, const PageBudget& budget,
            const Report* base)
      : report_(report),
        budget_(budget),
        groups_(overviews(report)),
        kept_(report.trials.size()),
        pictures_(pictures.placed(report, budget.moments)) {
    if (base != nullptr)
      for (const TrialPair& pair : pair_trials(*base, report).trials)
        base_of_[pair.fresh] = pair.base;
    for (const Overview& group : groups_)
      for (const TrialRecord* trial : group.trials) group_of_[trial] = &group - groups_.data();
    std::vector<Assertion> assertions = assertions_of(report);
    if (assertions.size() > budget.assertions) {
      left_out_ = assertions.size() - budget.assertions;
      std::ranges::stable_partition(assertions, &Assertion::failed);
      assertions.resize(budget.assertions);
    }
    for (const Assertion& assertion : assertions)
      for (const Verdict* verdict : assertion.verdicts) kept_[assertion.trial].push_back(verdict);
  }

  Json head() const {
    return {{"run", json_of(report_.run)},
            {"scenarios", outcomes(groups_)},
            {"left_out", left_out_},
            {"calls", pictures_.calls},
            {"pictures", pictures_.all}};
  }

  Json trial(std::size_t place) const {
    const TrialRecord& trial = report_.trials[place];
    const auto base = base_of_.find(&trial);
    Json variants = Json::array();
    for (const VariantRecord& variant : trial.variants) {
      Json& added = variants.emplace_back(
          json_of(variant, {"name", "role", "error", "loss", "sweep", "growth", "what", "timing",
                            "not_run", "gradients"}));
      added["ranks"] = Json::array();
      for (const RankRecord& rank : variant.ranks)
        added["ranks"].push_back(rank_json(rank, budget_));
      added["brief"] = variant.error.empty() ? "" : brief_error(variant);
      if (variant.timing || !variant.step_time_ns.empty())
        added["step_ns"] = typical_step_time(variant);
      added["shaped"] = shaped_by_capacity(variant);
      added["files"] = files_json(variant);
      if (auto noise = noise_json(trial, variant); !noise.is_null())
        added["noise"] = std::move(noise);
      if (const auto picture = pictures_.places.find(&variant); picture != pictures_.places.end())
        added["picture"] = picture->second;
      if (base == base_of_.end()) continue;
      const VariantRecord* other = variant_in(*base->second, variant.name);
      if (other != nullptr && !other->ranks.empty()) added["base"] = base_json(*other);
    }
    Json out =
        json_of(trial, {"scenario", "size", "mode", "schedule", "ranks", "steps", "seed", "params",
                        "skipped", "story", "kept", "symbols", "not_run", "seen", "published"});
    out.update({{"command", command(report_, trial)},
                {"variants", std::move(variants)},
                {"savings", savings_json(trial)},
                {"tallies", tallies(trial)}});
    TrialRecord verdicts;
    for (const Verdict* verdict : kept_[place]) verdicts.verdicts.push_back(*verdict);
    out.update(json_of(verdicts, {"verdicts"}));
    if (const auto group = group_of_.find(&trial); group != group_of_.end())
      out["group"] = group->second;
    return out;
  }

 private:
  const Report& report_;
  const PageBudget& budget_;
  std::size_t left_out_ = 0;
  std::vector<Overview> groups_;
  std::vector<std::vector<const Verdict*>> kept_;  // by trial
  Pictures::Placed pictures_;
  std::unordered_map<const TrialRecord*, const TrialRecord*> base_of_;
  std::unordered_map<const TrialRecord*, std::ptrdiff_t> group_of_;
};

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::optional<MemoryPicture> picture_of(const VariantRecord& variant, std::size_t moments) {
  const RankRecord* highest = nullptr;
  for (const RankRecord& rank : variant.ranks)
    if (!rank.memory.empty() &&
        (highest == nullptr || rank.peak(Statistic::active) > highest->peak(Statistic::active)))
      highest = &rank;
  if (highest == nullptr) return {};
  auto bytes = unpacked_bytes(highest->memory);
  if (!bytes || bytes->empty()) return {};
  const Snapshot history = in_blocks(record_snapshot(
      RecordBytes{std::move(*bytes)}, fmt::format("memory of rank {}", highest->rank)));
  for (const DeviceSummary& device : analyse(history)) {
    MemoryPicture picture = picture_of(history, device);
    if (picture.events.empty()) continue;
    picture.where = fmt::format("rank {}", highest->rank);
    return thinned(std::move(picture), moments);
  }
  return {};
}

Json page_data(const Report& report, const PageBudget& budget, const Report* base) {
  const PageParts parts(report, Pictures(report, budget.moments), budget, base);
  Json out = parts.head();
  out["trials"] = Json::array();
  for (std::size_t i = 0; i < report.trials.size(); ++i) out["trials"].push_back(parts.trial(i));
  return out;
}

std::string packed_page_data(const Report& report, const Report* base, PageBudget budget) {
  const Pictures pictures(report, budget.moments);
  for (;;) {
    const PageParts parts(report, pictures, budget, base);
    const std::string text = base64(gzip([&](const Put& put) {
      const std::string head = dumped(parts.head());
      put(std::string_view(head).substr(0, head.size() - 1));
      put(",\"trials\":[");
      for (std::size_t i = 0; i < report.trials.size(); ++i)
        put((i == 0 ? "" : ",") + dumped(parts.trial(i)));
      put("]}");
    }));
    if (text.size() / 4 * 3 <= budget.packed || budget.assertions == 0) return text;
    if (budget.moments > kFewestMoments)
      budget.moments = std::max(budget.moments / 2, kFewestMoments);
    else
      budget.assertions = std::min(budget.assertions, assertions_of(report).size()) / 2;
  }
}

std::string packed(const Json& data) { return base64(gzip(dumped(data))); }

}  // namespace tidemark
