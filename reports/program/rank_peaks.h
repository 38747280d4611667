// Peaks of the phases of a program's ranks, beside each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/memory/picture.h"

namespace tidemark {

struct RankPeaks {
  /// Phases with their steps. Where there are too many of these, phases alone, with step 0: the
  /// highest of all steps.
  std::vector<std::pair<std::string, std::int64_t>> phases;
  /// The peaks of each picture in these phases: active bytes as requested; none where it has no
  /// such phase.
  std::vector<std::vector<std::optional<std::int64_t>>> peaks;
};

/// At most `most` phases, in the order in which they come.
RankPeaks rank_peaks(const std::vector<const MemoryPicture*>& pictures, std::size_t most = 16);

}  // namespace tidemark
