#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>

#include "harness/record/made.h"
#include "reports/compare/pairs.h"
#include "reports/history/history.h"
#include "reports/history/trial_times.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// NaN is the worst of all; none where there is no value at all.
std::optional<double> worst(const Metric& metric) {
  if (metric.kind == Kind::loss) return metric.values.empty() ? std::nullopt : metric.values.back();
  std::optional<double> out;
  for (const auto& value : metric.values) {
    if (!value || (out && std::isnan(*out))) continue;
    const bool further = !out || (metric.worse == Worse::down ? *value < *out : *value > *out);
    if (further || std::isnan(*value)) out = value;
  }
  return out;
}

using Figures = std::map<std::string, Metric>;  // by name, each with one value

/// Keeps the worst over the ranks.
void add(Figures& figures, Metric metric) {
  const auto value = worst(metric);
  if (!value) return;
  metric.values = {value};
  const auto [at, fresh] = figures.emplace(metric.name, metric);
  if (fresh) return;
  at->second.values.push_back(value);
  at->second.values = {worst(at->second)};
}

Metric count(const char* name, Worse worse, int n) {
  return {name, Kind::counters, worse, "verdicts", {static_cast<double>(n)}};
}

std::map<std::string, Figures> figures_of(const TrialRecord& trial) {
  std::map<std::string, Figures> out;
  for (const VariantRecord& variant : trial.variants) {
    if (!variant.error.empty()) continue;
    Figures& figures = out[variant.name];
    for (const Metric& metric : metrics_of(variant)) add(figures, metric);
    for (const RankRecord& rank : variant.ranks)
      for (const Metric& metric : metrics_of(rank)) add(figures, metric);
  }
  std::map<std::string, std::array<int, 3>> verdicts;
  for (const Verdict& verdict : trial.verdicts) {
    ++verdicts[verdict.variant][static_cast<std::size_t>(verdict.status)];
    if (const auto metric = metric_of(verdict)) add(out[verdict.variant], *metric);
  }
  for (const auto& [variant, counts] : verdicts) {
    add(out[variant], count("verdicts/passed", Worse::down, counts[0]));
    add(out[variant], count("verdicts/failed", Worse::up, counts[1]));
  }
  return out;
}

std::int64_t insert_run(Database& database, const fs::path& folder, const Report& report) {
  const RunRecord& run = report.run;
  Statement(database, "DELETE FROM run WHERE id = ?").bind(run.id).next();
  Statement insert(
      database,
      "INSERT INTO run (id, started, folder, tidemark, git, torch, device, host, argv, "
      "duration_ns, exit_code, passed, failed, skipped) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(run.id, run.started, folder.filename().string(), run.tidemark, run.git, run.torch,
              run.device_kind + " " + run.profile, run.host,
              fmt::format("{}", fmt::join(run.argv, " ")), run.duration_ns, report.exit_code(),
              report.count(Status::pass), report.count(Status::fail), report.count(Status::skip));
  insert.next();
  return database.last_id();
}

}  // namespace

std::string device_of(const RunRecord& run) {
  return fmt::format("{} {} {}", run.device_kind, run.profile, run.capacity_bytes);
}

std::string series_settings(const RunRecord& run, const TrialRecord& trial) {
  const std::string more = run_settings(run);
  return settings_of(trial) + (more.empty() ? "" : " " + more);
}

void record_run(const fs::path& folder, const Report& report, int patience_ms) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const fs::path place = whole.has_filename() ? whole : whole.parent_path();
  Database database(place.parent_path() / kHistoryFile, Database::Open::write, patience_ms);
  prepare_tables(database);
  Transaction transaction(database);
  const std::int64_t run = insert_run(database, place, report);
  const std::string device = device_of(report.run);
  Statement series(database,
                   "INSERT OR IGNORE INTO series (trial, settings, device, variant, metric, kind, "
                   "worse, unit) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  Statement point(database,
                  "INSERT OR REPLACE INTO point (series, run, value) SELECT key, ?, ? FROM series "
                  "WHERE trial = ? AND settings = ? AND device = ? AND variant = ? AND metric = ?");
  for (const TrialRecord& trial : report.trials) {
    const std::string settings = series_settings(report.run, trial);
    for (const auto& [variant, figures] : figures_of(trial)) {
      for (const auto& [name, metric] : figures) {
        series.bind(trial.name(), settings, device, variant, name, static_cast<int>(metric.kind),
                    static_cast<int>(metric.worse), metric.unit);
        series.next();
        point.bind(run, metric.values[0], trial.name(), settings, device, variant, name).next();
      }
    }
  }
  record_trial_times(database, run, report);
  transaction.commit();
}

}  // namespace tidemark
