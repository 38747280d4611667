#include "reports/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "harness/record/units.h"

namespace tidemark {
namespace {

/// Trials that are equal in this are columns of one overview, one for each schedule.
auto columns_of(const TrialRecord& t) {
  return std::tuple<const std::string&, const std::string&, int, Mode, const Settings&, int,
                    std::uint64_t, bool>(t.scenario, t.size, t.ranks, t.mode, t.params, t.steps,
                                         t.seed, t.skipped.empty());
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
  // For trials with these columns: the count of each schedule, and the places of their overviews.
  std::map<decltype(columns_of(report.trials[0])),
           std::pair<std::map<std::string_view, std::size_t>, std::vector<std::size_t>>>
      groups;
  for (const TrialRecord& trial : report.trials) {
    if (trial.program) continue;  // has peaks of processes and no variants
    auto& [times, places] = groups[columns_of(trial)];
    const std::size_t time = times[trial.schedule]++;
    if (time == places.size()) {
      places.push_back(out.size());
      out.emplace_back();
    }
    out[places[time]].trials.push_back(&trial);
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

std::int64_t count_of(std::span<const Failure> failures) {
  std::int64_t out = 0;
  for (const Failure& one : failures) out += std::ssize(one.ranks);
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
