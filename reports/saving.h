// Savings of the fixes of a trial and their price, by one definition for every rendering.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/record.h"
#include "harness/record/units.h"
#include "reports/overview.h"

namespace tidemark {

/// The highest peak over the phases of the last step, on the rank where it is highest, in the
/// scenario's own statistic: of the first baseline that ran, and of a fix.
struct Saving {
  std::string fix, baseline;  // baseline: empty where none ran
  Statistic statistic = Statistic::allocated;
  std::optional<Bytes> before;
  Bytes after = 0;
  bool none_predicted = false;       // the forms predict that nothing is saved in a step
  std::optional<Status> judged;      // of the verdict saving/step; none: there is none
  const Verdict* step = nullptr;     // that verdict
  std::optional<double> time_ratio;  // typical step time, to the baseline's
  bool by_model = false;  // that of the schedule calibrated, whose clock is a model of the GPU
  /// Collectives that it calls more often (or less) in the last step, on the rank that calls most.
  std::vector<std::pair<std::string, std::int64_t>> extra;
  std::optional<double> recomputed;  // blocks computed again, over the whole run
  Bytes saved() const { return before.value_or(after) - after; }
};

/// Over the phases of the last step, on the rank where it is highest; 0 where none ran.
Bytes worst_peak(const VariantRecord& variant, Statistic statistic);
/// Peak over all steps, on the rank where it is highest; none where none ran.
std::optional<Bytes> peak_of_any_step(const VariantRecord& variant, Statistic statistic);

/// The saving of every fix that ran, in the order of the variants.
std::vector<Saving> savings_of(const TrialRecord& trial);

/// "1.227x step time by the model, +5 all_gather a step, 8 blocks recomputed"; empty without a
/// baseline.
std::string price_text(const Saving& saving);

/// The trial in which a fix saves most, of trials that differ in the schedule alone; null if no fix
/// ran.
const TrialRecord* telling_trial(const Overview& overview);
/// Gibibytes from one on: the unit in which a card's memory is told.
ByteUnit saving_unit(Bytes largest);
/// "24.61 (74 %)" and whether that is as predicted, or why nothing is saved; `name` follows the
/// figure.
std::string saved_text(const Saving& saving, const ByteUnit& unit, const std::string& name = "");
/// The saving in a unit of its own: "24.61 GiB (74 %)".
std::string saved_text(const Saving& saving);

/// The result of trials that differ in the schedule alone, in the words of a table: under the
/// schedule where a fix saves most.
struct ResultTable {
  std::string title;
  /// Fix, peak before and after, saved, price.
  std::vector<std::array<std::string, 4>> rows;
};
/// Empty where no fix ran.
std::optional<ResultTable> result_of(const Overview& overview);

}  // namespace tidemark
