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
#include "reports/cause.h"
#include "reports/compare/pairs.h"
#include "reports/overview.h"
#include "reports/picture_json.h"
#include "reports/saving.h"
#include "reports/thin.h"
#include "reports/write.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFewestSamples = 32;  // a timeline: enough for the eye
constexpr std::size_t kFewestMoments = 200;

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

Json differences(const std::vector<Sample>& samples, auto member) {
  Json out = Json::array();
  std::int64_t before = 0;
  for (const Sample& sample : samples) {
    out.push_back(sample.*member - before);
    before = sample.*member;
  }
  return out;
}

/// Uses of freed memory come first, then larger races.
bool worse_race(const Race& a, const Race& b) {
  return std::pair(a.kind != "freed", -a.bytes) < std::pair(b.kind != "freed", -b.bytes);
}

Json rank_json(const RankRecord& rank, std::size_t most, const PageBudget& budget) {
  const std::vector<Sample> kept = thin(rank.timeline, most);
  std::vector<Race> races = rank.races;
  std::ranges::stable_sort(races, worse_race);
  races.resize(std::min(races.size(), budget.races));
  Json out = json_of(rank, {"rank", "phases", "categories", "counters", "phase_starts",
                            "outside_allocator", "outside_owners", "unheld"});
  out.update({{"races", json_of(races)},
              {"races_in_all", rank.races.size()},
              {"timeline",
               {{"in_all", thin(rank.timeline, rank.timeline.size()).size()},
                {"time", differences(kept, &Sample::time)},
                {"allocated", differences(kept, &Sample::allocated)},
                {"active", differences(kept, &Sample::active)},
                {"reserved", differences(kept, &Sample::reserved)}}}});
  return out;
}

/// The picture of a rank whose memory was kept, in bytes of the allocator's blocks; null where
/// there is none.
Json memory_json(const RankRecord& rank, const PageBudget& budget) {
  auto bytes = unpacked_bytes(rank.memory);
  if (!bytes || bytes->empty()) return nullptr;
  const Snapshot history = in_blocks(
      record_snapshot(RecordBytes{std::move(*bytes)}, fmt::format("memory of rank {}", rank.rank)));
  for (const DeviceSummary& device : analyse(history)) {
    const MemoryPicture picture = picture_of(history, device);
    if (picture.events.empty()) continue;
    Json out = picture_json(thinned(picture, budget.moments));
    out["names"] = {fmt::format("rank {}", rank.rank)};
    return out;
  }
  return nullptr;
}

/// That of the rank with the highest peak, of those that have one.
Json picture_of(const VariantRecord& variant, const PageBudget& budget) {
  const RankRecord* highest = nullptr;
  for (const RankRecord& rank : variant.ranks)
    if (!rank.memory.empty() &&
        (highest == nullptr || rank.peak(Statistic::active) > highest->peak(Statistic::active)))
      highest = &rank;
  return highest == nullptr ? Json() : memory_json(*highest, budget);
}

/// The number of entries of each list with which all lists together have at most `most`; short
/// lists leave their share to long ones.
std::size_t fair_share(std::vector<std::size_t> lengths, std::size_t most, std::size_t fewest,
                       std::size_t each) {
  std::ranges::sort(lengths);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::size_t fair = most / (lengths.size() - i);
    if (lengths[i] > fair) return std::clamp(fair, fewest, each);
    most -= lengths[i];
  }
  return each;
}

/// Number of samples kept of each timeline: at most 2,000, more than a chart has pixels.
std::size_t samples_of(const Report& report, const PageBudget& budget) {
  std::vector<std::size_t> lengths;
  for (const TrialRecord& trial : report.trials)
    for (const VariantRecord& variant : trial.variants)
      for (const RankRecord& rank : variant.ranks) lengths.push_back(rank.timeline.size());
  return fair_share(lengths, budget.samples, kFewestSamples, 2000);
}

Json savings_json(const TrialRecord& trial) {
  Json out = Json::array();
  for (const Saving& one : savings_of(trial))
    out.push_back({{"fix", one.fix},
                   {"baseline", text_or_null(one.baseline)},
                   {"statistic", name_of(one.statistic)},
                   {"before", one.before ? Json(*one.before) : Json()},
                   {"after", one.after},
                   {"saved", saved_text(one)},
                   {"judged", one.judged ? Json(name_of(*one.judged)) : Json()},
                   {"price", price_text(one)}});
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
  PageParts(const Report& report, const PageBudget& budget, const Report* base)
      : report_(report),
        budget_(budget),
        samples_(samples_of(report, budget)),
        groups_(overviews(report)),
        kept_(report.trials.size()) {
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
    return {
        {"run", json_of(report_.run)}, {"scenarios", outcomes(groups_)}, {"left_out", left_out_}};
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
        added["ranks"].push_back(rank_json(rank, samples_, budget_));
      added["brief"] = variant.error.empty() ? "" : brief_error(variant);
      if (variant.timing || !variant.step_time_ns.empty())
        added["step_ns"] = typical_step_time(variant);
      added["shaped"] = shaped_by_capacity(variant);
      added["files"] = files_json(variant);
      if (Json picture = picture_of(variant, budget_); !picture.is_null())
        added["picture"] = std::move(picture);
      if (base == base_of_.end()) continue;
      const VariantRecord* other = variant_in(*base->second, variant.name);
      if (other != nullptr && !other->ranks.empty()) added["base"] = base_json(*other);
    }
    Json out = json_of(trial, {"scenario", "size", "mode", "schedule", "ranks", "steps", "seed",
                               "params", "skipped", "story", "symbols", "not_run"});
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
  std::size_t samples_, left_out_ = 0;
  std::vector<Overview> groups_;
  std::vector<std::vector<const Verdict*>> kept_;  // by trial
  std::unordered_map<const TrialRecord*, const TrialRecord*> base_of_;
  std::unordered_map<const TrialRecord*, std::ptrdiff_t> group_of_;
};

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Json page_data(const Report& report, const PageBudget& budget, const Report* base) {
  const PageParts parts(report, budget, base);
  Json out = parts.head();
  out["trials"] = Json::array();
  for (std::size_t i = 0; i < report.trials.size(); ++i) out["trials"].push_back(parts.trial(i));
  return out;
}

std::string packed_page_data(const Report& report, const Report* base, PageBudget budget) {
  for (;;) {
    const PageParts parts(report, budget, base);
    const std::string text = base64(gzip([&](const Put& put) {
      const std::string head = dumped(parts.head());
      put(std::string_view(head).substr(0, head.size() - 1));
      put(",\"trials\":[");
      for (std::size_t i = 0; i < report.trials.size(); ++i)
        put((i == 0 ? "" : ",") + dumped(parts.trial(i)));
      put("]}");
    }));
    if (text.size() / 4 * 3 <= budget.packed || budget.assertions == 0) return text;
    if (samples_of(report, budget) > kFewestSamples)
      budget.samples /= 2, budget.moments = std::max(budget.moments / 2, kFewestMoments);
    else
      budget.assertions = std::min(budget.assertions, assertions_of(report).size()) / 2;
  }
}

std::string packed(const Json& data) { return base64(gzip(dumped(data))); }

}  // namespace tidemark
