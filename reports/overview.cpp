#include "reports/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "harness/record/units.h"

namespace tidemark {
namespace {

bool together(const TrialRecord& a, const TrialRecord& b) {
  return a.scenario == b.scenario && a.size == b.size && a.ranks == b.ranks && a.mode == b.mode &&
         a.params == b.params && a.steps == b.steps && a.seed == b.seed &&
         a.skipped.empty() == b.skipped.empty() && a.schedule != b.schedule;
}

OverviewRow& row_of(Overview& overview, const std::string& variant, const std::string& role) {
  auto row = std::ranges::find(overview.rows, variant, &OverviewRow::variant);
  if (row == overview.rows.end()) {
    overview.rows.push_back({variant, role, std::vector<Cell>(overview.trials.size())});
    return overview.rows.back();
  }
  return *row;
}

void fill(Overview& overview, std::size_t column) {
  const TrialRecord& trial = *overview.trials[column];
  for (const VariantRecord& variant : trial.variants) {
    Cell& cell = row_of(overview, variant.name, name_of(variant.role)).cells[column];
    cell.error = variant.error;
    cell.not_run = !variant.not_run.empty();
    cell.step_time_ns = typical_step_time(variant);
    for (const RankRecord& rank : variant.ranks) {
      if (rank.steps.empty()) continue;
      for (const Phase& phase : rank.steps.back().phases) {
        cell.measured = true;
        for (std::size_t s = 0; s < cell.peak.size(); ++s) {
          cell.peak[s] = std::max(cell.peak[s], phase.levels[s].peak);
          overview.largest = std::max(overview.largest, cell.peak[s]);
        }
      }
    }
  }
  for (const OverviewRow& row : overview.rows) {
    for (Bytes peak : row.cells[column].peak) {
      if (peak > 0 && (overview.smallest == 0 || peak < overview.smallest))
        overview.smallest = peak;
    }
  }
  for (const Verdict& verdict : trial.verdicts) {
    Cell& cell = row_of(overview, verdict.variant, "").cells[column];
    ++(verdict.status == Status::pass   ? cell.passed
       : verdict.status == Status::fail ? cell.failed
                                        : cell.skipped);
  }
}

}  // namespace

std::string Overview::title() const {
  return one_line(trials[0]->scenario + "/" + trials[0]->size);
}

std::string Overview::detail() const {
  const TrialRecord& t = *trials[0];
  std::string out = fmt::format("{}, {}, {} steps, seed {}", plural(t.ranks, "rank"),
                                name_of(t.mode), t.steps, t.seed);
  for (const auto& [name, value] : t.params)
    out += fmt::format(", {}={}", name, setting_text(value));
  return one_line(out);
}

std::vector<Overview> overviews(const Report& report) {
  std::vector<Overview> out;
  for (const TrialRecord& trial : report.trials) {
    if (trial.program) continue;  // has peaks of processes and no variants
    auto group = std::ranges::find_if(out, [&](const Overview& o) {
      return std::ranges::all_of(o.trials,
                                 [&](const TrialRecord* t) { return together(*t, trial); });
    });
    if (group == out.end()) group = out.insert(out.end(), Overview{});
    group->trials.push_back(&trial);
  }
  for (Overview& overview : out) {
    for (std::size_t i = 0; i < overview.trials.size(); ++i) fill(overview, i);
  }
  return out;
}

const VariantRecord* variant_in(const TrialRecord& trial, const std::string& name) {
  const auto match = std::ranges::find(trial.variants, name, &VariantRecord::name);
  return match == trial.variants.end() ? nullptr : &*match;
}

std::vector<std::vector<const Verdict*>> by_assertion(const TrialRecord& trial) {
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> places;
  std::vector<std::vector<const Verdict*>> out;
  for (const Verdict& verdict : trial.verdicts) {
    const auto [at, fresh] = places.try_emplace({verdict.variant, verdict.name}, out.size());
    if (fresh) out.emplace_back();
    out[at->second].push_back(&verdict);
  }
  return out;
}

std::vector<Failure> failures(const Report& report) {
  std::vector<Failure> out;
  for (const TrialRecord& trial : report.trials) {
    std::map<std::pair<std::string_view, std::string_view>, std::size_t> places;
    for (const Verdict& verdict : trial.verdicts) {
      if (verdict.status != Status::fail) continue;
      const auto [at, fresh] = places.try_emplace({verdict.name, verdict.variant}, out.size());
      if (fresh) out.push_back({&trial, &verdict, {}});
      out[at->second].ranks.push_back(verdict.rank);
    }
  }
  return out;
}

Ns typical_step_time(const VariantRecord& variant) {
  if (variant.timing) return variant.timing->median;
  std::vector<Ns> times = variant.step_time_ns;
  if (times.empty()) return 0;
  if (times.size() > 1) times.erase(times.begin());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace tidemark
