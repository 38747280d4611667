// Checks that the user asks for: --max-peak, --fits, --no-growth, --no-races, --no-retries and
// --compare.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"
#include "reports/compare/threshold.h"
#include "reports/html.h"

namespace tidemark {

/// What PyTorch's allocator can have of a GPU.
struct GpuCapacity {
  std::string name;
  std::int64_t bytes = 0, nccl = 0;  // a program that calls NCCL has the second less
};
/// Throws UsageError if there is no such profile.
GpuCapacity capacity_of(const std::string& gpu);

struct Wishes {
  std::optional<std::int64_t> max_peak;  // bytes reserved, on every device
  std::vector<GpuCapacity> fits;
  bool no_growth = false, no_races = false, no_retries = false;
  bool any() const { return max_peak || !fits.empty() || no_races || no_retries; }
};

inline constexpr const char* kKnown = "memory/known";  // the name of that verdict
/// A verdict that fails because a peak is not known, for the reason `why`.
inline Verdict not_known(int rank, const std::string& why) {
  return {.name = kKnown, .rank = rank, .status = Status::fail, .why = why};
}

/// The verdicts on what the user asks for, of each device and process. Where nothing was recorded,
/// or a process was killed, one fails that says so.
std::vector<Verdict> verdicts_of(const ProgramRecord& program, const Wishes& wishes);
/// The verdict of --no-growth on a run whose events are kept.
Verdict no_growth(const ProgramRecord& program, const HighestPeak& peak);
/// The flag that asked for a verdict: "--fits h100-80g"; empty: none.
std::string flag_of(const std::string& verdict);
/// A check that failed: its line, the verdict that is furthest beyond its limit, and the flag; ""
/// of what is not known whatever the flag.
struct FailedCheck {
  std::string line, flag;
  const Verdict* worst = nullptr;
};
/// One for each flag, whatever many devices it fails on, and one for each reason why a peak is not
/// known.
std::vector<FailedCheck> failed_checks(const std::vector<Verdict>& verdicts);
/// A line for each kind of check that holds everywhere: "--no-races: none". Empty where something
/// was not recorded.
std::vector<std::string> passed_checks(const std::vector<Verdict>& verdicts, bool outside);

/// The report of another run, as `tidemark exec --out` and `--report` write it. Throws UsageError
/// in one line where it is none, or where it holds no peaks.
Report read_base(const std::filesystem::path& path);

struct PeakRegressions {
  /// A verdict that fails for each peak (allocated, active, reserved of every rank and device) that
  /// grew by more than its threshold, or that one of the two runs does not have. A process that was
  /// killed has no peaks.
  std::vector<Verdict> failures;
  /// Text of the differences between the runs, then of the new peak's parts beyond the old one.
  std::string causes;
  Changes changes;  // for the page
};
/// `base_path`: of `base`; `folder`: of the report of this run, or empty.
PeakRegressions grown(const Report& base, const Report& now,
                      const std::vector<Threshold>& thresholds,
                      const std::filesystem::path& base_path, const std::filesystem::path& folder);

}  // namespace tidemark
