// Peaks of a program against those of an earlier run of it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/compare/threshold.h"

namespace tidemark {

/// The report of another run, as `tidemark exec --out` writes it. Throws UsageError in one line
/// where it is none, or where it holds no peaks.
nlohmann::json read_base(const std::filesystem::path& file);

/// One line for each peak (allocated, active, reserved of every rank and device) that grew by more
/// than the threshold of "memory/<statistic>", or that one of the two runs does not have. A
/// process that was killed has no peaks.
std::vector<std::string> grown(const nlohmann::json& base,
                               const std::vector<nlohmann::json>& records,
                               const std::vector<Threshold>& thresholds);

}  // namespace tidemark
