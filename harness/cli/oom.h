// Record of what the allocator held when it ran out of memory, as a PyTorch snapshot beside the
// report.
#pragma once

#include <filesystem>
#include <string>

#include "harness/scenario.h"

namespace tidemark {

/// From now on PyTorch's allocator tells when it gives up; once a process. What it held is kept
/// until it is saved or the next one comes.
void watch_out_of_memory();

/// Called where an error has broken off this rank's variant: writes what was kept to folder/oom/,
/// and says in which file, or why there is none; empty where no memory was wanting.
std::string save_out_of_memory(const std::filesystem::path& folder, const Trial& trial,
                               const std::string& variant, int rank);

}  // namespace tidemark
