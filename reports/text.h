// What `tidemark run` prints when it is done.
#pragma once

#include <string>

#include "harness/record.h"

namespace tidemark {

/// Tables of verdicts and peaks, what failed and why, and the last line "N passed, N failed, N
/// skipped". At most 100 columns but for names, formulas and commands. ANSI colours with `colour`.
/// How the run came out, in a line: the last one of text_of().
std::string outcome_line(const Report& report);

std::string text_of(const Report& report, bool colour = false);

}  // namespace tidemark
