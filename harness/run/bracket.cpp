#include "harness/run/bracket.h"

#include <algorithm>

#include "harness/judge/counts.h"

namespace tidemark {
namespace {

bool same_but_schedule(const TrialRecord& a, const TrialRecord& b) {
  return a.scenario == b.scenario && a.size == b.size && a.mode == b.mode && a.ranks == b.ranks &&
         a.steps == b.steps && a.seed == b.seed && a.params == b.params;
}

const TrialRecord* twin(const std::vector<TrialRecord>& trials, const TrialRecord& of,
                        const char* schedule) {
  auto trial = std::ranges::find_if(trials, [&](const TrialRecord& other) {
    return other.schedule == schedule && other.skipped.empty() && same_but_schedule(other, of);
  });
  return trial == trials.end() ? nullptr : &*trial;
}

const RankRecord* find(const TrialRecord& trial, const std::string& variant, int rank) {
  auto one = std::ranges::find(trial.variants, variant, &VariantRecord::name);
  if (one == trial.variants.end()) return nullptr;
  auto record = std::ranges::find(one->ranks, rank, &RankRecord::rank);
  return record == one->ranks.end() ? nullptr : &*record;
}

Verdict between(const std::string& schedule, const Phase& low, const Phase& measured,
                const Phase& high) {
  const auto peak = [](const Phase& phase) {
    return static_cast<double>(phase[Statistic::requested].peak);
  };
  auto verdict = bounded("bracket/requested/" + measured.name, peak(low), peak(high),
                         peak(measured), "instant <= " + schedule + " <= lagging");
  verdict.values = {{"instant", peak(low)}, {"lagging", peak(high)}};
  return verdict;
}

std::vector<Verdict> brackets(const TrialRecord& timed, const TrialRecord& instant,
                              const TrialRecord& lagging) {
  std::vector<Verdict> verdicts;
  for (const auto& variant : timed.variants) {
    if (variant.role == Role::control) continue;
    for (const auto& record : variant.ranks) {
      const RankRecord* low = find(instant, variant.name, record.rank);
      const RankRecord* high = find(lagging, variant.name, record.rank);
      if (low == nullptr || high == nullptr || record.steps.empty()) continue;
      for (const auto& phase : record.steps.back().phases) {
        const Phase *least = low->phase(phase.name), *most = high->phase(phase.name);
        if (least == nullptr || most == nullptr) continue;
        verdicts.push_back(between(timed.schedule, *least, phase, *most));
        if (!high->unheld.empty()) {
          verdicts.back().status = Status::skip;
          verdicts.back().why = high->unheld;
        }
        verdicts.back().variant = variant.name;
        verdicts.back().rank = record.rank;
      }
    }
  }
  return verdicts;
}

}  // namespace

void judge_brackets(std::vector<TrialRecord>& trials) {
  for (auto& trial : trials) {
    if (trial.schedule == "instant" || trial.schedule == "lagging" || !trial.skipped.empty())
      continue;
    const TrialRecord *instant = twin(trials, trial, "instant"),
                      *lagging = twin(trials, trial, "lagging");
    if (instant == nullptr || lagging == nullptr) continue;
    std::ranges::move(brackets(trial, *instant, *lagging), std::back_inserter(trial.verdicts));
  }
}

}  // namespace tidemark
