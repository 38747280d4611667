#include "harness/exec/records.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

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
  put_by_rank(records);
  return records;
}

void put_by_rank(std::vector<ProcessRecord>& records) {
  std::ranges::stable_sort(records, {}, [](const ProcessRecord& one) {
    return std::pair(one.rank.value_or(-1), one.pid);
  });
}

}  // namespace tidemark
