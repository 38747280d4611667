// Source and target of event logs: the folder of a run, or one file of a recording.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ranges>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/record/json_reader.h"
#include "harness/record/json_writer.h"
#include "reports/events/compare_events.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kMeasured = "tidemark/measured";
constexpr const char* kVersion = "2.0";

/// A variant's events on one rank each.
std::vector<TrialRecord> read_folder(const fs::path& folder) {
  std::vector<TrialRecord> trials;
  for (const auto& file : files_below(folder / "allocator", ".json"))
    trials.push_back(parse_trial(read_bytes(file), file.string()));
  if (trials.empty())
    throw std::runtime_error(
        fmt::format("{}: has no allocator events: run with --events", folder.string()));
  return trials;
}

std::vector<TrialRecord> read_measured(const fs::path& path) {
  const std::string where = path.string();
  const std::string bytes = read_bytes(path);
  const auto json = json_of_others(bytes, where);
  if (!json) throw std::runtime_error(where + ": is not JSON: give a run's folder or a recording");
  const Node root(json->root(), where);
  if (root["schema"].text() != kMeasured || !root["schema_version"].text().starts_with("2."))
    root.fail(fmt::format("is not a '{}' of version 2", kMeasured));
  return list<TrialRecord>(root["traces"], [](const Node& node) {
    TrialRecord trial;
    JsonReader::read(node, trial);
    return trial;
  });
}

}  // namespace

std::vector<EventLog> read_events(const fs::path& path) {
  std::vector<EventLog> logs;
  for (const TrialRecord& trial : fs::is_directory(path) ? read_folder(path) : read_measured(path))
    for (EventLog& log : event_logs(trial, path.string())) logs.push_back(std::move(log));
  return logs;
}

std::string measured_json(const RunRecord& run, const fs::path& folder) {
  Json traces = Json::array();
  for (TrialRecord& trial : read_folder(folder)) {
    for (MemoryHistory& step : trial.variants.at(0).ranks.at(0).events) {
      step.set_operators({});
      for (AllocatorEvent& event : step.traces | std::views::join) event.stack = 0;
    }
    traces.push_back(json_of(trial));
  }
  const Json json{{"schema", kMeasured},
                  {"schema_version", kVersion},
                  {"started", run.started},
                  {"device", {{"kind", run.device_kind}, {"profile", run.profile}}},
                  {"tidemark", run.tidemark},
                  {"git", run.git},
                  {"torch", run.torch},
                  {"nccl", run.nccl},
                  {"traces", std::move(traces)}};
  return json_text(json);
}

}  // namespace tidemark
