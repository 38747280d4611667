// Parts of a scenario's new peak beyond the old one, by category of memory.
#pragma once

#include <vector>

#include "harness/record/record.h"
#include "reports/html.h"

namespace tidemark {

/// A section for each scenario: of its trials and variants the one whose peak has changed most, in
/// active memory where that is the scenario's statistic, else in allocated. The parts sum to the
/// difference. The largest change comes first; nothing of variants without categories.
std::vector<Section> kinds_changed(const Report& base, const Report& fresh, std::size_t most);

}  // namespace tidemark
