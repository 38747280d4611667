// Changes that would help a program to fit a GPU, for `tidemark advise` and `fit --advise`.
#pragma once

#include <string>
#include <vector>

#include "harness/record/fit.h"

namespace tidemark {

/// A row for the program as it is, and for each change that ran or was computed and has an effect;
/// the first row is the header.
std::vector<std::vector<std::string>> advice_rows(const Advice& advice);

/// A line that says which change saves most, and a line for the changes without an effect.
std::vector<std::string> advice_lines(const Advice& advice);

/// All of it for the terminal.
std::string advice_text(const Advice& advice);

}  // namespace tidemark
