// Comparison of two reports: the figures that changed, and those that got worse by more than a
// threshold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/compare/metric.h"
#include "reports/compare/threshold.h"

namespace tidemark {

/// Place of a figure in a report.
struct Place {
  std::string trial;  // TrialRecord::name(), with the parameters where names alone are ambiguous
  std::string variant;
  std::vector<int> ranks;  // all that changed alike; empty for what has no rank
};

enum class Effect { regression, improvement, changed };
const char* name_of(Effect);

/// The name of the change where a variant ended early.
inline constexpr const char* kEndedEarly = "error";

/// A verdict or a variant's end that came out differently.
struct VerdictChange {
  Place place;
  std::string name;           // of the verdict; kEndedEarly for a variant
  std::string before, after;  // pass, fail, skip, absent; ran, error
  std::string why;
  Effect effect = Effect::changed;
  double size = 0;  // how far off, relative to what was expected
  int others = 0;   // further verdicts of the variant that are no longer judged for the same reason
};

/// A figure that is another one. The values are those of the rank and step where it changed most.
struct Change {
  Place place;
  std::string metric, unit;
  Kind kind = Kind::memory;
  Worse worse = Worse::up;
  std::optional<double> before, after;  // none: no value
  int rank = -1, step = -1;             // -1: has none
  int first_step = -1, steps = 1;       // where it first differs, in how many steps
  double size = 0;                      // how large: for the order
  Effect effect = Effect::changed;
  std::string threshold;
};

/// One metric of two runs, held against each other step by step.
struct Outcome {
  bool differs = false;  // at all; with no change where every difference is within the threshold
  std::optional<Change> change;  // its place and rank are the caller's to fill in
};
Outcome compare_metric(const Metric& before, const Metric& after, const Thresholds& thresholds);

struct CompareOptions {
  std::vector<Threshold> thresholds;
  bool allow_missing = false;  // what is missing in the new report is no regression
};

struct Comparison {
  std::int64_t verdicts = 0, metrics = 0;   // that are in both reports
  std::int64_t within = 0;                  // metrics that differ, but not beyond their threshold
  std::vector<VerdictChange> turns;         // regressions first, the largest first
  std::vector<Change> changes;              // likewise
  std::vector<std::string> missing, fresh;  // trials, variants, ranks, metrics in one report only;
                                            // what was skipped is not in a report
  std::vector<std::string> differently;     // how the runs were made differently
  std::vector<std::string> unmatched;       // thresholds that fit no metric
  std::vector<std::string> thresholds;      // as they were applied
  bool allow_missing = false;
  bool same_run = false;  // both reports are of one run
  std::int64_t comparisons() const { return verdicts + metrics; }
  /// Worse verdicts and figures, and what is missing where that is not allowed.
  int regressions() const;
  int count(Effect) const;
  bool same() const;      // nothing differs at all
  int exit_code() const;  // 0, 1 with a regression, 4 where nothing was left to compare
};

Comparison compare(const Report& base, const Report& fresh, const CompareOptions& options);

}  // namespace tidemark
