// Trials that an earlier run has finished, for one that goes on where it ended (`run --resume`).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "harness/cli/options.h"
#include "harness/record/record.h"

namespace tidemark {

class Resumed {
 public:
  Resumed() = default;  // nothing was finished
  /// Writes the report of `folder` if the processes of that run could not, and reads it. Throws
  /// UsageError, which names the first difference, if that run had other arguments, another
  /// installation, device or environment, or is still going on.
  Resumed(const std::filesystem::path& folder, const RunRecord& now);

  /// The record of this trial, if the earlier run has it to its end, with all its files; else
  /// nullptr.
  const TrialRecord* of(const PlannedTrial& planned) const;
  /// The wall time that it took; 0: not known.
  Ns time_of(const TrialRecord& trial) const;

 private:
  Report report_;
};

}  // namespace tidemark
