// Memory snapshots of a program's ranks: which tensors are alive at the highest peak.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/snapshot/analysis.h"

namespace tidemark {

/// The snapshot with the highest peak of active memory, of those in a folder.
struct HighestPeak {
  std::filesystem::path file;  // empty: there is none
  DeviceSummary device;
  std::vector<std::string> unreadable;  // a line each
};

/// tidemark_snapshot.py writes the files.
HighestPeak highest_peak(const std::filesystem::path& folder);

/// Its part of the program's record; none without a file.
std::optional<AliveAtPeak> alive_at(const HighestPeak& peak);

/// Its bytes by kind of tensor, module and Python line, which sum to that peak; or one line where
/// there is none.
std::string alive_text(const HighestPeak& peak);

}  // namespace tidemark
