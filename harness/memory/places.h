// Places of a program's devices: names that are the same in every run of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// "rank 3", or the process by its number where it has no rank.
std::string name_of(const ProcessRecord& process);
/// The process with its device, unless that is cuda:0 alone.
std::string place_of(const ProcessRecord& process, const DeviceRecord& device);
/// "rank 3", "process 3419" of the name of a record, and another name as it is; with the device
/// unless that is cuda:0.
std::string place_name(const std::string& snapshot, std::size_t device);
/// Likewise; of a process with several devices also cuda:0.
std::string place_name(const std::string& snapshot, std::size_t device, bool several);
/// A sentence about a process without devices: its peaks are not known.
std::string unrecorded(const ProcessRecord& process);

/// "rank 3 cuda:1", "process 2": a rank with what tells apart its devices, or that alone.
std::string name_of(std::optional<int> rank, const std::string& variant);

struct DeviceAt {
  const ProcessRecord* process = nullptr;
  const DeviceRecord* device = nullptr;
  /// "process 2", the second of those without a rank; "cuda:1", of a process with several devices.
  std::string variant;       // empty for a rank with one device
  std::string name() const;  // "rank 3 cuda:1", "process 2"
};
/// All devices of a program, by rank. Points into it.
std::vector<DeviceAt> devices_of(const ProgramRecord& program);

}  // namespace tidemark
