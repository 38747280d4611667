// Text of what is alive at the highest peak of a program's processes.
#pragma once

#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"

namespace tidemark {

/// The memory of the highest by kind of tensor, module and Python line, which sums to that peak; or
/// one line where there is none. Before it a line for each file that cannot be read. `needs`: a run
/// with room has said what the program needs, and what is lacking is said there.
std::string alive_text(const std::vector<HighestPeak>& peaks, bool needs = false);

}  // namespace tidemark
