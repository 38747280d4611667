// The run of one trial: every variant of a scenario on every rank, one after the other in the same
// processes, each from a clean device. Then all ranks judge, and rank 0 gathers the records.
#pragma once

#include <functional>
#include <string>

#include "harness/judge/parity.h"
#include "harness/ranks/world.h"
#include "harness/record/record.h"
#include "harness/run/explore.h"
#include "harness/run/gather.h"
#include "harness/scenario.h"

namespace tidemark {

/// The ranks of which blocks, map, spans and events of the last step are recorded: these cost time
/// and are most of a report. `worst`: the rank with the highest peak of allocated (the first of
/// them), and ranks with races.
enum class Details { none, worst, all };

struct RunOptions {
  std::function<bool(const Variant&)> selected;      // null: all variants
  std::function<void(const std::string&)> progress;  // what runs now; rank 0 only
  std::vector<double> run_ahead;                     // Exploration::run_ahead
  bool growth = false;                               // Exploration::growth
  Details details = Details::worst;
  /// Gets every variant's record on every rank, with all its events; null: they are not kept.
  std::function<void(const Variant&, const RankRecord&)> events;
  /// Gets every variant's numbers on every rank, and what the reference allows them (its tolerance,
  /// condition and reason); in mode math alone. Null: not wanted.
  std::function<void(const Variant&, const Numbers&, const Oracle&)> numbers;
  /// Gets every variant, as this rank has it, once it has ended on all ranks. Null: not kept.
  std::function<void(const VariantRecord&)> ended;
  /// An addition to the message where this rank has broken off a variant; may be empty.
  std::function<std::string(const Variant&)> explain;
};

/// The record of a trial of which nothing has run yet.
TrialRecord record_of(const Scenario& scenario, const Trial& trial);

/// The whole record on rank 0, this rank's part elsewhere. A variant whose program throws (out of
/// memory, a failed collective) on any rank ends on all of them with an error that says who threw
/// what, and the others go on: a rank that unwinds aborts its communicators, so no rank waits for
/// it. Throws std::runtime_error where a rank does not come back at all.
TrialRecord run_trial(const Scenario& scenario, const Trial& trial, World& world,
                      const RunOptions& options = {});

}  // namespace tidemark
