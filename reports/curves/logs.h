// Logs of trainers: lines of text among which some name a step and a loss.
#pragma once

#include <string_view>

#include "reports/curves/points.h"

namespace tidemark {

/// True where a line near the begin of `text` has a loss whose step is known.
bool fits_log(std::string_view text, std::string_view first);

/// The step of a loss is what its line names, else what its progress bar has done ("10/300", after
/// the epochs before it), else what the last line with a step has named. Dictionaries that Python
/// prints have the steps of the progress bar between them, or are numbered; so are all losses where
/// steps begin anew in each epoch.
void read_log(std::string_view text, Points& points);

}  // namespace tidemark
