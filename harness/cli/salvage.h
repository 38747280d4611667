// A run kept trial by trial in its session, so that a report can still be written when the ranks
// end early: killed, hung, interrupted.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/plan.h"
#include "harness/record.h"

namespace tidemark {

/// Rank 0's side. Without a session (somebody else's launcher) nothing is kept.
class Checkpoint {
 public:
  Checkpoint(std::filesystem::path session, const RunRecord& run);
  void begin(const PlannedTrial& planned);
  void end(const TrialRecord& trial);

 private:
  void write(const Report& report, const std::string& name) const;
  std::filesystem::path session_;
  int count_ = 0;
};

/// The launching process's side: what the session holds; the trial that was under way has an error
/// that says how the ranks ended and where each of them was. None where nothing had begun.
std::optional<Report> salvage(const std::filesystem::path& session, const std::string& how);

}  // namespace tidemark
