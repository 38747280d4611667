// The folder of `tidemark exec --report`: page, summary and JUnit file of report.json and of the
// memory snapshots beside it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"
#include "reports/html.h"
#include "reports/write.h"

namespace tidemark {

/// The page of the report in `folder`. `peaks`: of each program what its snapshots hold; may be
/// empty. `changes`: against another run, or null.
TextMaker program_page(const Report& report, const std::vector<HighestPeak>& peaks,
                       const std::filesystem::path& folder, const Changes* changes = nullptr);

/// report.html, summary.md and junit.xml of a report with programs, which has to be there when they
/// are written.
std::vector<File> program_files(const Report& report, const std::vector<HighestPeak>& peaks,
                                const std::filesystem::path& folder,
                                const Changes* changes = nullptr);

/// Writes these files again, from report.json and the records beside it, or the snapshots that
/// reports before 3.1 have. Throws std::runtime_error in one line.
void rerender_programs(const std::filesystem::path& folder, const Report& report,
                       const Changes* changes = nullptr);

}  // namespace tidemark
