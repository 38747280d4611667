// File of what a program's page says of its memory, so that the page can be written again without
// the snapshots of its processes.
#pragma once

#include <filesystem>
#include <string>

#include "reports/program/alive.h"

namespace tidemark {

/// Its name, in the folder of the snapshots (snapshots_of).
inline constexpr const char* kMemoryFile = "memory.json.gz";

/// The file's bytes, JSON in gzip: what highest_peak has read, but for the curves, sites and
/// waiting frees of single devices, which no page of a program has.
std::string memory_file(const HighestPeak& peak);

/// Throws std::runtime_error in one line that begins with the path if the file is not of this
/// version of tidemark, or was changed.
HighestPeak read_memory(const std::filesystem::path& path);

}  // namespace tidemark
