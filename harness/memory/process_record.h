// The record of a process's memory that `tidemark exec` makes (harness/memory/format/format.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"
#include "harness/record/program.h"

namespace tidemark {

struct ProcessMemory {
  int pid = 0;
  bool ended = false;       // by itself
  std::optional<int> rank;  // in the process group
  std::vector<DeviceRecord> devices;
  bool has_events = false;
  std::string last;  // "in backward of step 2, with 61.3 GiB allocated": its last allocation
};

/// The figures alone, up to the last allocation, also of a process that was killed or goes on.
/// None where the file is not whole yet. Throws SnapshotError in one line that begins with the
/// path if it is not a record.
std::optional<ProcessMemory> record_figures(const std::filesystem::path& path);

/// All events, as a snapshot of PyTorch's allocator at the end of the record.
Snapshot record_snapshot(const std::filesystem::path& path);
struct RecordBytes;
/// Of a record in memory; `where` names it in messages.
Snapshot record_snapshot(const RecordBytes& record, const std::string& where);

}  // namespace tidemark
