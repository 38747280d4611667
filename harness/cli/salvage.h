// Copy of a run in its session folder, variant by variant, so that a report can still be written
// when the ranks end early: killed, hung, interrupted.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/ranks/launch.h"
#include "harness/ranks/world.h"
#include "harness/record/record.h"
#include "harness/run/plan.h"

namespace tidemark {

/// A rank's side. Without a session (another launcher's) nothing is kept.
class Checkpoint {
 public:
  /// The rank that leads the world also keeps the plan and whole trials.
  Checkpoint(std::filesystem::path session, const World& world);
  /// The leading rank's: the run, with all its trials as not run yet.
  void plan(const Report& all) const;
  void begin(std::size_t trial);
  /// Every rank's part of a variant that has ended on all of them.
  void add(const VariantRecord& variant) const;
  /// The leading rank's: the whole trial; the parts of its variants are no longer needed.
  void end(const TrialRecord& trial) const;

 private:
  void write(const Report& report, const std::string& name) const;
  std::filesystem::path session_;
  const World& world_;
  std::size_t trial_ = 0;
};

/// The record of a planned trial that has not begun, with its variants.
TrialRecord record_of(const PlannedTrial& planned);

/// The launching process's side: what the session holds. Trials and variants that did not run say
/// so with the reason; the variant that was under way has an error that says how the ranks ended
/// and where each of them was. None where no rank had made a plan.
std::optional<Report> salvage(const std::filesystem::path& session, const Ending& ending);

}  // namespace tidemark
