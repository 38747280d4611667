// Checks that the user asks for: --max-peak, --no-races, --no-retries and --compare.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/compare/threshold.h"
#include "reports/html.h"

namespace tidemark {

struct Wishes {
  std::optional<std::int64_t> max_peak;  // bytes allocated, on every device
  bool no_races = false, no_retries = false;
  bool any() const { return max_peak || no_races || no_retries; }
};

/// One line for each verdict that fails. Where nothing was recorded, or a process was killed, they
/// are not known to hold, which is a failure too.
std::vector<std::string> failures(const ProgramRecord& program, const Wishes& wishes);

/// The report of another run, as `tidemark exec --out` and `--report` write it. Throws UsageError
/// in one line where it is none, or where it holds no peaks.
Report read_base(const std::filesystem::path& path);

struct PeakRegressions {
  /// One line for each peak (allocated, active, reserved of every rank and device) that grew by
  /// more than its threshold, or that one of the two runs does not have. A process that was killed
  /// has no peaks.
  std::vector<std::string> failures;
  /// What was different about the runs, then what the new peak is made of beyond the old one.
  std::string causes;
  Changes changes;  // for the page
};
PeakRegressions grown(const Report& base, const Report& now,
                      const std::vector<Threshold>& thresholds);

}  // namespace tidemark
