#include "reports/history/trial_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/units.h"
#include "reports/compare/pairs.h"

namespace tidemark {
namespace {

constexpr int kWaitForWriters = 2000;  // ms

std::string key_of(const std::string& name, const std::string& settings) {
  return name + " " + settings;
}

bool stands_alone(const RunRecord& run) {
  return run.env.contains("TIDEMARK_AS_RANK") ||
         std::ranges::any_of(run.argv,
                             [](const std::string& word) { return word.starts_with("--as-rank"); });
}

}  // namespace

void record_trial_times(Database& database, std::int64_t run, const Report& report) {
  database.run(
      "CREATE TABLE IF NOT EXISTS trial_time (run INTEGER NOT NULL REFERENCES run ON DELETE "
      "CASCADE, trial TEXT NOT NULL, settings TEXT NOT NULL, alone INTEGER NOT NULL, variants "
      "INTEGER NOT NULL, ns INTEGER NOT NULL)");
  Statement insert(database,
                   "INSERT INTO trial_time (run, trial, settings, alone, variants, ns) VALUES (?, "
                   "?, ?, ?, ?, ?)");
  const std::size_t known = std::min(report.trials.size(), report.run.trial_ns.size());
  for (std::size_t i = 0; i < known; ++i) {
    const TrialRecord& trial = report.trials[i];
    if (course_of(trial) != Course::finished) continue;
    insert.bind(run, trial.name(), settings_of(trial), stands_alone(report.run) ? 1 : 0,
                static_cast<std::int64_t>(trial.variants.size()), report.run.trial_ns[i]);
    insert.next();
  }
}

PastTrials past_trials(const std::filesystem::path& history, const std::string& host, bool alone) {
  PastTrials past;
  std::error_code ignored;
  if (!std::filesystem::exists(history, ignored)) return past;
  try {
    Database database(history, Database::Open::read, kWaitForWriters);
    if (database.number("SELECT count(*) FROM sqlite_master WHERE name = 'trial_time'") == 0)
      return past;
    Statement all(database,
                  "SELECT trial, settings, variants, ns FROM trial_time JOIN run ON run.key = "
                  "trial_time.run WHERE host = ? AND alone = ? ORDER BY started");
    all.bind(host, alone ? 1 : 0);
    while (all.next())  // the latest comes last
      past[key_of(all.text(0), all.text(1))] = {all.integer(3),
                                                static_cast<std::size_t>(all.integer(2))};
  } catch (const HistoryError&) {
    past.clear();
  }
  return past;
}

std::optional<Ns> time_of(const PastTrials& past, const TrialRecord& trial) {
  const auto past_time = past.find(key_of(trial.name(), settings_of(trial)));
  if (past_time == past.end() || past_time->second.variants == 0) return std::nullopt;
  return past_time->second.ns * static_cast<Ns>(trial.variants.size()) /
         static_cast<Ns>(past_time->second.variants);
}

void record_program_time(const std::filesystem::path& history, const std::string& host,
                         const std::string& program, Ns ns) {
  Database database(history, Database::Open::write, kWaitForWriters);
  prepare_tables(database);
  Transaction transaction(database);
  database.run(
      "CREATE TABLE IF NOT EXISTS program_time (host TEXT NOT NULL, program TEXT NOT NULL, ns "
      "INTEGER NOT NULL, PRIMARY KEY (host, program)) WITHOUT ROWID");
  Statement(database, "INSERT OR REPLACE INTO program_time (host, program, ns) VALUES (?, ?, ?)")
      .bind(host, program, ns)
      .next();
  transaction.commit();
}

std::optional<Ns> past_program_time(const std::filesystem::path& history, const std::string& host,
                                    const std::string& program) {
  std::error_code ignored;
  if (!std::filesystem::exists(history, ignored)) return std::nullopt;
  try {
    Database database(history, Database::Open::read, kWaitForWriters);
    if (database.number("SELECT count(*) FROM sqlite_master WHERE name = 'program_time'") == 0)
      return std::nullopt;
    Statement one(database, "SELECT ns FROM program_time WHERE host = ? AND program = ?");
    one.bind(host, program);
    if (one.next()) return one.integer(0);
  } catch (const HistoryError&) {
  }
  return std::nullopt;
}

std::string in_minutes(Ns ns) {
  const auto seconds = (ns + 500'000'000) / 1'000'000'000;
  return seconds < 60 ? duration(ns) : fmt::format("{} min {} s", seconds / 60, seconds % 60);
}

}  // namespace tidemark
