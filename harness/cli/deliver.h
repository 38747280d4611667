// End of a run: its folder, the links beside it, the history, and what the user reads.
#pragma once

#include <filesystem>

#include "harness/cli/options.h"
#include "harness/record/record.h"

namespace tidemark {

/// Writes the report into `folder`, points `latest` (and `latest-good`, where every trial ran and
/// passed) beside it to it, adds it to the history and prints it. What a run under TIDEMARK_FAULT
/// measured does not go into the history. Where the folder cannot be written the report is printed
/// all the same. Returns the run's exit code, 3 where it could not be written.
int deliver(const Report& report, const std::filesystem::path& folder, const Options& options);

}  // namespace tidemark
