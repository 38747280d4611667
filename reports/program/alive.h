// Text of what is alive at the highest peak of a program's processes.
#pragma once

#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"

namespace tidemark {

/// The bytes of the highest by kind of tensor, module and Python line, which sum to that peak; or
/// one line where there is none; then what grows, on a GPU of that `capacity`. Before it a line for
/// each file that cannot be read.
std::string alive_text(const std::vector<HighestPeak>& peaks, Bytes capacity);

}  // namespace tidemark
