// Source and target of event logs: the folder of a run, or one file of a recording.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/json_node.h"
#include "reports/events/compare_events.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "tidemark/measured";
constexpr const char* kVersion = "1.0";

std::vector<EventLog> read_measured(const fs::path& path) {
  const std::string where = path.string();
  const auto json = Json::parse(read_bytes(path), nullptr, false);
  if (json.is_discarded())
    throw std::runtime_error(where + ": is not JSON: give a run's folder or a recording");
  const Node root(json, where);
  if (root["schema"].text() != kSchema || !root["schema_version"].text().starts_with("1."))
    root.fail(fmt::format("is not a '{}' of version 1", kSchema));
  return list<EventLog>(root["traces"], [&](const Node& trace) {
    std::string lines;
    trace.each([&](const Node& line) { lines += line.text() + "\n"; });
    return parse_events(lines, where);
  });
}

}  // namespace

std::vector<EventLog> read_events(const fs::path& path) {
  if (!fs::is_directory(path)) return read_measured(path);
  const std::vector<fs::path> files = files_below(path / "allocator", ".txt");
  if (files.empty())
    throw std::runtime_error(
        fmt::format("{}: has no allocator events: run with --events", path.string()));
  std::vector<EventLog> logs;
  for (const auto& file : files) logs.push_back(parse_events(read_bytes(file), file.string()));
  return logs;
}

std::string measured_json(const RunRecord& run, const std::vector<EventLog>& logs) {
  Json traces = Json::array();
  for (EventLog log : logs) {
    for (StepEvents& step : log.steps)
      for (BlockEvent& event : step.events) event.op.clear();
    Json lines = Json::array();
    const std::string text = event_text(log);
    for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
    }
    traces.push_back(std::move(lines));
  }
  const Json json{{"schema", kSchema},
                  {"schema_version", kVersion},
                  {"started", run.started},
                  {"device", {{"kind", run.device_kind}, {"profile", run.profile}}},
                  {"tidemark", run.tidemark},
                  {"git", run.git},
                  {"torch", run.torch},
                  {"nccl", run.nccl},
                  {"traces", std::move(traces)}};
  return json.dump(0) + "\n";
}

}  // namespace tidemark
