#include "harness/exec/records.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/device/linked_device.h"
#include "harness/record/json_reader.h"

namespace tidemark {

std::vector<ProcessRecord> read_records(const std::filesystem::path& folder,
                                        const std::filesystem::path& users) {
  std::vector<ProcessRecord> records;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".json") continue;
    std::ifstream text(file.path());
    const auto record = nlohmann::ordered_json::parse(text, nullptr, false);
    if (record.is_discarded()) continue;
    JsonReader::read(Node(record, file.path().string()), records.emplace_back());
  }
  for (const auto& file : std::filesystem::directory_iterator(users)) {
    const int pid = std::stoi(file.path().filename());
    if (std::ranges::find(records, pid, &ProcessRecord::pid) == records.end())
      records.emplace_back().pid = pid;
  }
  std::ranges::sort(records, {}, [](const ProcessRecord& one) {
    return std::pair(one.rank.value_or(-1), one.pid);
  });
  return records;
}

RunRecord describe_exec(int argc, char** argv, const std::string& torch, const RunRecord& version) {
  RunRecord run = version;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::tm time = fmt::gmtime(std::chrono::system_clock::to_time_t(now));
  run.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", time);
  run.id = fmt::format("{:%Y%m%d-%H%M%S}-{}", time, getpid());
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  run.host = host;
  run.torch = torch;
  run.argv.assign(argv, argv + argc);
  run.argv[0] = "tidemark";
  run.device_kind = "virtual";
  run.profile = linked_profile();
  run.capacity_bytes = linked_capacity();
  return run;
}

}  // namespace tidemark
