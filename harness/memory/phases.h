// Peaks of the phases of a program.
#pragma once

#include <vector>

#include "harness/memory/analysis.h"

namespace tidemark {

/// The peaks of each step's phases of each name on a device, in the order in which they begin.
/// `begin` is the level before the trace, `curve` that after each of its events. A phase has the
/// events between its moments. A phase is left out where its moments are not in the trace.
std::vector<PhasePeak> peaks_of(const std::vector<ProgramPhase>& phases, std::size_t device,
                                const std::vector<AllocatorEvent>& trace, const Holdings& begin,
                                const std::vector<Holdings>& curve);

}  // namespace tidemark
