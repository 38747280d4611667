// Memory snapshots of a program's ranks: which tensors are alive at the highest peak.
#pragma once

#include <filesystem>
#include <string>

namespace tidemark {

/// Of the snapshots in `folder` (python/tidemark_snapshot.py writes them) the one with the highest
/// peak of active memory: its bytes by kind of tensor, module and Python line, which sum to that
/// peak. One line where there is none, and one for each file that cannot be read.
std::string alive_at_peak(const std::filesystem::path& folder);

}  // namespace tidemark
