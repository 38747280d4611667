// The peaks of the last nights from history.sqlite, for a report of today.
#pragma once

#include <filesystem>

#include "reports/nights.h"

namespace tidemark {

/// Reads the peaks of the last run of each day before that of `report`, of the last kNights - 1
/// days. Empty where there is no history or it cannot be read: a page lacks its lines then.
Nights nights_of(const std::filesystem::path& history, const Report& report);
/// Reads the peaks from the history beside the folder of the report.
Nights nights_beside(const std::filesystem::path& folder, const Report& report);

}  // namespace tidemark
