// The report of a job whose processes were killed before one of them could write it.
#pragma once

#include <filesystem>

namespace tidemark {

/// Writes the report of a job that has records in `folder`, the folder of --report, and removes the
/// records unless a process of the job is alive. Does nothing where there are none. Throws
/// std::runtime_error in one line.
void recover_report(const std::filesystem::path& folder);

}  // namespace tidemark
