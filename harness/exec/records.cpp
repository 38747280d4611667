#include "harness/exec/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "harness/memory/places.h"
#include "harness/memory/process_record.h"
#include "harness/memory/sources.h"
#include "harness/print.h"
#include "harness/record/file.h"
#include "harness/record/json_reader.h"
#include "harness/record/number.h"
#include "harness/virtual/device/new_file.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<fs::path, ProcessMemory>> memories_in(const fs::path& folder) {
  std::vector<std::pair<fs::path, ProcessMemory>> out;
  std::error_code gone;  // a user may remove the folder while the program runs
  for (const auto& file : fs::directory_iterator(folder, gone))
    if (file.path().extension() == ".record")
      if (auto memory = record_figures(file.path()))
        out.emplace_back(file.path(), std::move(*memory));
  std::ranges::sort(out, {}, &std::pair<fs::path, ProcessMemory>::first);
  return out;
}

}  // namespace

std::vector<ProcessRecord> read_records(const fs::path& folder, const fs::path& users) {
  std::vector<ProcessRecord> records;
  for (const auto& [file, memory] : memories_in(folder)) {
    if (memory.devices.empty()) continue;
    ProcessRecord record;
    const std::string beside = fs::path(file).replace_extension(".json");
    const std::string bytes = fs::exists(beside) ? read_bytes(beside) : std::string();
    if (const auto rest = json_of_others(bytes, beside))
      JsonReader::read(Node(rest->root(), beside), record);
    record.pid = memory.pid;
    record.rank = memory.rank;
    record.ended = memory.ended;
    if (!memory.ended) record.last = memory.last;
    record.devices = memory.devices;
    records.push_back(std::move(record));
  }
  std::error_code gone;
  for (const auto& file : fs::directory_iterator(users, gone)) {
    const std::string name = file.path().filename();
    const auto number = parse_number(name);  // a process's, else it is no mark of one
    if (!number || *number < 1 || *number > std::numeric_limits<int>::max()) continue;
    const int pid = static_cast<int>(*number);
    if (std::ranges::find(records, pid, &ProcessRecord::pid) == records.end())
      records.emplace_back().pid = pid;
  }
  put_by_rank(records);
  return records;
}

void write_snapshots(const fs::path& folder, const fs::path& to) {
  for (const auto& [file, memory] : memories_in(folder)) {
    const fs::path written = fs::path(file).replace_extension(".written");
    if (memory.devices.empty() || !memory.has_events || fs::exists(written)) continue;
    const std::string name =
        memory.rank ? fmt::format("rank{}", *memory.rank) : fmt::format("process{}", memory.pid);
    fs::path place = to / name;
    for (int number = 1; fs::exists(place.string() + ".record"); ++number)
      place = to / fmt::format("{}-{}", name, number);  // several say that they are rank 0
    std::vector<File> files;
    try {
      files.push_back({place.filename().string() + ".record",
                       with_sources(read_record(file, true).value(), file)});
    } catch (const SnapshotError& error) {
      print(stderr, "tidemark: what was alive in {} is not known: {}: {}\n", name, file.string(),
            one_line(error.what()));
      continue;
    }
    const fs::path trace = fs::path(file).replace_extension(".trace.json.gz");
    if (fs::exists(trace))
      files.push_back({place.filename().string() + ".trace.json.gz", read_bytes(trace)});
    write_files(to, files, "name another folder (--report)");
    make_mark(written.c_str());
  }
}

void share_gpus(ProgramRecord& program, Bytes context) {
  struct User {
    const ProcessRecord* process;
    const DeviceRecord* device;
  };
  std::map<std::pair<std::string, std::string>, std::vector<User>> users;  // by host and GPU
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices)
      if (std::cmp_less(device.device, process.gpus.size()))
        users[{process.host, process.gpus[static_cast<std::size_t>(device.device)]}].push_back(
            {&process, &device});
  for (const auto& [gpu, all] : users) {
    SharedGpu most{.gpu = gpu.second};
    for (const User& last : all) {  // when the last one of those that overlap began
      const std::int64_t moment = last.process->begin_ns;
      SharedGpu now{.gpu = gpu.second};
      for (const User& one : all) {
        if (moment < one.process->begin_ns || moment >= one.process->end_ns) continue;
        now.bytes += one.device->all() + (now.places.empty() ? 0 : context);
        now.places.push_back(place_of(*one.process, *one.device));
      }
      if (now.places.size() > 1 && now.bytes > most.bytes) most = std::move(now);
    }
    if (!most.places.empty()) program.shared.push_back(std::move(most));
  }
  for (ProcessRecord& process : program.processes)
    process.host.clear(), process.gpus.clear(), process.begin_ns = process.end_ns = 0;
}

void put_by_rank(std::vector<ProcessRecord>& records) {
  std::ranges::stable_sort(records, {}, [](const ProcessRecord& one) {
    return std::pair(one.rank.value_or(-1), one.pid);
  });
}

}  // namespace tidemark
