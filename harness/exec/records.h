// Memory records of the processes of a program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// The records of `folder`, by rank; each as python/tidemark_exec.py writes it. A process that is
/// named in the folder `users` (TIDEMARK_USERS) and has written nothing has a record without
/// devices.
std::vector<ProcessRecord> read_records(const std::filesystem::path& folder,
                                        const std::filesystem::path& users);

/// By rank, then by process id.
void put_by_rank(std::vector<ProcessRecord>& records);

}  // namespace tidemark
