// A variant of a trial as a row of Google Benchmark: its name, counters and label are the same in
// `tidemark bench` and in a run's benchmark.json.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// End of the name of every benchmark whose time the library is told: here it is the device's.
inline constexpr const char* kManualTime = "/manual_time";

/// "fsdp_prefetch/seed/r4/lagging/stash"; in another mode than shapes it stands before the
/// schedule: "fsdp_prefetch/smoke/r4/math/lagging/stash". The schedule is that of the memory.
std::string benchmark_name(const TrialRecord& trial, const std::string& variant);

/// The clock of the steps' times on a device of this kind ("virtual", "cuda"), in a sentence.
std::string benchmark_clock(const std::string& device_kind);

struct BenchmarkRow {
  /// peak_requested, peak_allocated, peak_active, peak_reserved: bytes, the highest of the last
  /// step on the rank where it is highest. saved, saved_percent: of a fix, less than the first
  /// baseline that ran, in the scenario's statistic; of any other variant 0. collectives,
  /// collective_bytes: of the last step, on the rank that has most. retries: of the allocator, in
  /// all steps.
  std::vector<std::pair<std::string, double>> counters;
  std::string
      label;  // "baseline", "saves 24.61 GiB of active (74 %)", "saves nothing of active ..."
};
/// `variant` is one of the trial's, and has run.
BenchmarkRow benchmark_row(const TrialRecord& trial, const VariantRecord& variant);

}  // namespace tidemark
