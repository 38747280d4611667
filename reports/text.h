// Text that `tidemark run` prints at its end.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

/// Tables of verdicts and peaks, what failed and why, and the last lines of headline.h. At most 100
/// columns but for names, formulas and commands. ANSI colours with `colour`.
std::string text_of(const Report& report, bool colour = false);

}  // namespace tidemark
