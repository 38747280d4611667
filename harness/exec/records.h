// Memory records of the processes of a program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// The records of `folder`, by rank; each the memory that the operator layer records
/// (PID.record) with the rest that python/tidemark_record.py writes (PID.json). A process that is
/// named in the folder `users` (TIDEMARK_USERS) and has written nothing has a record without
/// devices.
std::vector<ProcessRecord> read_records(const std::filesystem::path& folder,
                                        const std::filesystem::path& users);

/// Writes the snapshots and traces of the processes whose records are in `folder` into the folder
/// `to`, as rankN.record or processPID.record and .trace.json.gz, each once,
/// and whole or not at all.
void write_snapshots(const std::filesystem::path& folder, const std::filesystem::path& to);

/// Writes down which GPUs several of the processes used at the same time, a context having
/// `context` bytes, and takes from the processes what that is known by.
void share_gpus(ProgramRecord& program, Bytes context);

/// By rank, then by process id.
void put_by_rank(std::vector<ProcessRecord>& records);

}  // namespace tidemark
