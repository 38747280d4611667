// Groups of trials and failures for the renderings that people read: trials that differ in the
// schedule alone stand side by side, and equal failures stand once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

inline constexpr std::size_t kWhole = 3;  // failures of a group that are told in full
inline constexpr std::size_t kNamed = 8;  // and of more, those that are named

/// A variant under one schedule.
struct Cell {
  int passed = 0, failed = 0, skipped = 0;
  std::string error;
  bool not_run = false;  // the run ended before it
  bool measured = false;
  std::array<Bytes, 4> peak{};  // by Statistic: of the last step, all phases, the worst rank
  Ns step_time_ns = 0;          // see typical_step_time
};

struct OverviewRow {
  std::string variant;
  std::string role;         // empty for verdicts on the trial as a whole
  std::vector<Cell> cells;  // by schedule
};

/// The trials of one scenario, size, world and mode.
struct Overview {
  std::vector<const TrialRecord*> trials;  // one a schedule, at least one
  std::vector<OverviewRow> rows;
  Bytes largest = 0, smallest = 0;  // of all the peaks but zeros
  std::string title() const;        // scenario/size
  std::string detail() const;       // "4 ranks, math, 4 steps, seed 0, layers=4"
};
std::vector<Overview> overviews(const Report& report);

/// Outcome of the verdicts of groups: "1 of 6 verdicts failed, 1 of 3 trials skipped".
struct GroupOutcome {
  Status status;
  std::string text;
};
GroupOutcome outcome_of(const std::vector<const Overview*>& groups);

/// Null where the trial has none of that name.
const VariantRecord* variant_in(const TrialRecord& trial, const std::string& name);

/// The verdicts of a trial that differ in the rank alone, together.
std::vector<std::vector<const Verdict*>> by_assertion(const TrialRecord& trial);

/// A failed verdict, on all the ranks on which it failed; the figures are of the first of them.
struct Failure {
  const TrialRecord* trial;
  const Verdict* verdict;
  std::vector<int> ranks;
};
std::vector<Failure> failures(const Report& report);
/// The failures of every rank: what a headline counts.
std::int64_t count_of(std::span<const Failure> failures);

/// "rank 0", "ranks 0-3", "ranks 0, 2".
std::string ranks_text(const std::vector<int>& ranks);
/// "838,860,800 bytes", "between 1 and 2 ulp", "at most 3 bytes"; empty where nothing bounds it.
std::string expected_text(const Verdict& verdict);
/// "at most 64 MiB", "88 MiB (24 MiB more)": bytes in a unit; other figures as in the exact texts.
std::string expected_size(const Verdict& verdict);
std::string measured_size(const Verdict& verdict);
/// A cell of a table (html.h): the second with the first as its tooltip where they differ.
std::string sized_cell(const std::string& exact, const std::string& size);
/// "2*U + S with S = 3, U = 4".
std::string formula_text(const Verdict& verdict);
/// "6,291,456 bytes (+1,048,576)"; the difference is to the nearer bound.
std::string measured_text(const Verdict& verdict);
/// The expected value of a failed verdict, the summands of its formula, the measured value, and the
/// reason; each on a line.
std::vector<std::string> failure_lines(const Verdict& verdict);

/// Median of the step times, over all repetitions of a GPU, the first step (warm-up) left out where
/// there are others; 0 without any.
Ns typical_step_time(const VariantRecord& variant);

/// The command that runs this trial again, from nothing.
std::string command(const Report& report, const TrialRecord& trial);

}  // namespace tidemark
