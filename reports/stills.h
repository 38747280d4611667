// Sections of report.html for browsers without scripts: the scenarios and the list of verdicts.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

/// A section for each scenario, the target of a link in the overview: memory of the baseline beside
/// that of the best fix, and what is alive at both peaks.
std::string stills(const Report& report);

}  // namespace tidemark
