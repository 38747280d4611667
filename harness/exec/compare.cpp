#include "harness/exec/compare.h"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/exec/report.h"
#include "reports/units.h"

namespace tidemark {
namespace {

using nlohmann::json;
using PeaksByPlace =
    std::map<std::pair<std::string, std::string>, Bytes>;  // by place and statistic

// Of processes without a rank the first, the second ...: their numbers are another run's others.
PeaksByPlace peaks_of(const std::vector<json>& records) {
  PeaksByPlace out;
  int processes = 0;
  for (const json& record : records) {
    const std::string process =
        record.at("rank").is_null() ? fmt::format("process {}", ++processes) : name_of(record);
    if (!record.at("ended").get<bool>()) continue;
    for (const json& device : record.at("devices"))
      for (const char* statistic : {"allocated", "active", "reserved"})
        out[{fmt::format("{} cuda:{}", process, device.at("device").get<int>()), statistic}] =
            device.at(statistic).get<Bytes>();
  }
  return out;
}

}  // namespace

json read_base(const std::filesystem::path& file) {
  const auto wrong = [&](const std::string& what) {
    return UsageError(fmt::format("exec: --compare {}: {}: give a file that exec --out wrote",
                                  file.string(), what));
  };
  std::ifstream text(file);
  if (!text || std::filesystem::is_directory(file)) throw wrong("cannot be read");
  json base = json::parse(text, nullptr, false);
  if (base.is_discarded() || !base.is_object() || base.value("schema", json()) != "tidemark/exec")
    throw wrong("is no report of a program");
  try {
    if (peaks_of(base.at("ranks").get<std::vector<json>>()).empty())
      throw wrong("no process of it has ended with a peak");
  } catch (const json::exception&) {
    throw wrong("its peaks cannot be read");
  }
  return base;
}

std::vector<std::string> grown(const json& base, const std::vector<json>& records,
                               const std::vector<Threshold>& thresholds) {
  const Thresholds all(thresholds);
  const PeaksByPlace before = peaks_of(base.at("ranks").get<std::vector<json>>()),
                     after = peaks_of(records);
  std::vector<std::string> lines;
  for (const auto& [key, bytes] : before) {
    const auto& [place, statistic] = key;
    const auto now = after.find(key);
    if (now == after.end()) {
      lines.push_back(
          fmt::format("--compare: unknown: {} has no peak of {} in this run", place, statistic));
      continue;
    }
    Metric metric;
    metric.name = "memory/" + statistic;
    const auto a = static_cast<double>(bytes), b = static_cast<double>(now->second);
    if (b > a && all.beyond(metric, a, b))
      lines.push_back(fmt::format("--compare: {}: the peak of {} grew by {} bytes: {} -> {}", place,
                                  statistic, exact(b - a), exact(a), exact(b)));
  }
  for (const auto& [key, bytes] : after)
    if (!before.contains(key))
      lines.push_back(fmt::format("--compare: unknown: {} has no peak of {} in the other run",
                                  key.first, key.second));
  return lines;
}

}  // namespace tidemark
