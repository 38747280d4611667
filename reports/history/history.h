// history.sqlite, beside the runs: every run's figures, and how they went over time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/compare/metric.h"
#include "reports/history/database.h"

namespace tidemark {

inline constexpr const char* kHistoryFile = "history.sqlite";
inline constexpr int kHistoryVersion = 1;

/// Adds the run in `folder` to the history beside it; a run that is there already is replaced.
/// Other processes may do the same at the same time. Throws HistoryError.
void record_run(const std::filesystem::path& folder, const Report& report, int patience_ms = 10000);

/// "virtual h100-80g 85899345920": what tells apart the figures of devices.
std::string device_of(const RunRecord& run);

/// Settings of a trial and of its run: figures of others are another series.
std::string series_settings(const RunRecord& run, const TrialRecord& trial);

struct PastRun {
  std::string id, started, folder, git, device;
  int exit_code = 0, passed = 0, failed = 0, skipped = 0;
};

struct PastPoint {
  std::size_t run;              // in History::runs
  std::optional<double> value;  // none: no number (NaN)
};

/// A metric of a variant over the runs: of the worst rank and step, a loss at its last step.
struct Trend {
  std::string trial, settings, device, variant;
  Metric metric;  // without values
  std::vector<PastPoint> points;
  /// Positions in `points` at which the value left its level by more than the metric's threshold.
  std::vector<std::size_t> steps() const;
  std::string name() const;  // trial variant metric
};

struct History {
  std::vector<PastRun> runs;  // oldest first
  std::vector<Trend> trends;
};

struct HistoryQuery {
  std::string since;                 // "2026-01-31", with a time, or an age "7d", "12h"
  std::vector<std::string> metrics;  // globs over the metric, or over "trial variant metric"
};

/// `path`: the file or the folder that holds it. Throws HistoryError.
History read_history(const std::filesystem::path& path, const HistoryQuery& query);

/// The folder of the latest run that ended with 0 and whose report is still there; empty: none.
std::filesystem::path last_good(const std::filesystem::path& path);

/// Removes runs: all but the latest `keep` ("100"), or those before a date or age. Returns how
/// many.
int prune_history(const std::filesystem::path& path, const std::string& keep);

/// "2026-01-31T00:00:00Z" of a date or an age; throws HistoryError.
std::string since_text(const std::string& since);

std::string history_text(const History& history, bool all);
std::string history_json(const History& history);
std::string history_html(const History& history, bool all);

}  // namespace tidemark
