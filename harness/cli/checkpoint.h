// A rank's copy of its part of a run in the run's session folder, variant by variant, so that a
// report can still be written when the ranks end early (salvage.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/ranks/world.h"
#include "harness/record/record.h"
#include "harness/run/plan.h"

namespace tidemark {

class Checkpoint {
 public:
  /// The rank that leads the world also keeps the plan and whole trials. This process is known as
  /// alive from now on. A folder that cannot be written is not written to.
  Checkpoint(std::filesystem::path session, const World& world);
  /// The leading rank's: the run, with all its trials as not run yet.
  void plan(const Report& all) const;
  void begin(std::size_t trial);
  /// Every rank's part of a variant that has ended on all of them.
  void add(const VariantRecord& variant) const;
  /// The leading rank's: the whole trial; the parts of its variants are no longer needed.
  void end(std::size_t index, const TrialRecord& trial) const;

 private:
  void write(const Report& report, const std::string& name) const;
  std::filesystem::path session_;
  const World& world_;
  std::size_t trial_ = 0;
};

/// The record of a planned trial that has not begun, with its variants.
TrialRecord record_of(const PlannedTrial& planned);

}  // namespace tidemark
