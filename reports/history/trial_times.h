// Wall times of trials and of programs in history.sqlite, from which the length of the next run is
// estimated.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "harness/record/record.h"
#include "reports/history/database.h"

namespace tidemark {

/// Adds the times of a run that is in the database as `run`.
void record_trial_times(Database& database, std::int64_t run, const Report& report);

struct PastTrial {
  Ns ns = 0;
  std::size_t variants = 0;
};
using PastTrials = std::map<std::string, PastTrial>;  // by name and settings

/// The latest time of every trial that has finished on this host; `alone`: of runs in which one
/// process stood for a rank. Empty where there is no history or it cannot be read.
PastTrials past_trials(const std::filesystem::path& history, const std::string& host, bool alone);

/// Last wall time of `trial`, in proportion to the variants that are to run now; none if unknown.
std::optional<Ns> time_of(const PastTrials& past, const TrialRecord& trial);

/// Adds the time that `program` took: the text that says which it is, and how it runs. Throws
/// HistoryError.
void record_program_time(const std::filesystem::path& history, const std::string& host,
                         const std::string& program, Ns ns);
/// The time that the program took last on this host; none if unknown.
std::optional<Ns> past_program_time(const std::filesystem::path& history, const std::string& host,
                                    const std::string& program);

/// "40 s", "3 min 20 s".
std::string in_minutes(Ns ns);

}  // namespace tidemark
