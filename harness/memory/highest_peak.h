// The highest peak of a program's processes. Their records or snapshots lie in one folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"
#include "harness/memory/growth.h"
#include "harness/memory/picture.h"

namespace tidemark {

/// Memory that a process had not freed at its end.
struct LeftAtEnd {
  std::string process;  // "rank0"
  std::size_t device = 0;
  bool several = false;    // the process has several devices
  std::int64_t bytes = 0;  // as requested
  std::vector<Part> parts;
};

/// The snapshot with the highest peak of active memory, of those of one run. Its device's wastes
/// are, of each kind, the most of all processes.
struct HighestPeak {
  std::string schedule;
  std::filesystem::path folder;
  std::filesystem::path file;  // empty: there is none
  DeviceSummary device;
  bool several = false;                 // its process has several devices
  std::vector<OutOfMemory> ooms;        // the last one of every device that had one
  std::vector<LeftAtEnd> left;          // of every device
  std::vector<MemoryPicture> pictures;  // of all snapshots
  std::vector<MemoryPicture> room;      // of those devices that had an oom, with room (beyond.h)
  std::vector<StepGrowth> growths;      // of the devices whose memory grows
  std::vector<std::string> unreadable;  // a line for each that is not whole, or cannot be read
};

/// The folder of the snapshots of a run under `schedule` in a report's folder: that folder itself,
/// or with several schedules its subfolder with the name of the schedule.
std::filesystem::path snapshots_of(const std::filesystem::path& report,
                                   const std::string& schedule);

/// In that folder: the snapshots of the second run, with room, of a program that ran out of memory.
inline constexpr const char* kRoomFolder = "room";

/// Reads the run under `schedule` in a report's folder. harness/exec/records.h writes the files.
HighestPeak highest_peak(const std::filesystem::path& report, const std::string& schedule);

/// The picture of the snapshot `where` ("rank0") of a run under `schedule`, of the device whose
/// peak is highest; none where it is not there or cannot be read.
std::optional<MemoryPicture> picture_of_peak(const std::filesystem::path& report,
                                             const std::string& schedule, const std::string& where);

/// The highest of all; nullptr where none has a file.
const HighestPeak* highest_of(const std::vector<HighestPeak>& peaks);

/// Its part of the program's record; none without a file.
std::optional<AliveAtPeak> alive_at(const HighestPeak& peak);

/// The device that grows most in a step; nullptr where none grows.
const StepGrowth* worst_growth(const HighestPeak& peak);
const StepGrowth* worst_growth(const std::vector<HighestPeak>& peaks);

}  // namespace tidemark
