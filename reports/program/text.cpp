#include "harness/exec/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "reports/units.h"

namespace tidemark {

using nlohmann::json;

std::string name_of(const json& record) {
  return record["rank"].is_null() ? fmt::format("process {}", record["pid"].get<int>())
                                  : fmt::format("rank {}", record["rank"].get<int>());
}

std::string place_of(const json& record, const json& device) {
  return device["device"] == 0 && record["devices"].size() == 1
             ? name_of(record)
             : fmt::format("{} cuda:{}", name_of(record), device["device"].get<int>());
}

namespace {

struct Event {
  bool decides;
  std::int64_t count;
  std::string line, operation, answer;
};

// Of all processes together; those by which the program branched first, then the most frequent.
std::vector<Event> events_of(const std::vector<json>& records) {
  std::map<std::tuple<bool, std::string, std::string, std::string>, std::int64_t> counts;
  for (const json& record : records)
    for (const json& e : record.value("events", json::array()))
      counts[{e["decides"], e["line"], e["operation"], e["answer"]}] +=
          e["count"].get<std::int64_t>();
  std::vector<Event> events;
  for (const auto& [what, count] : counts) {
    const auto& [decides, line, operation, answer] = what;
    events.push_back({decides, count, line.empty() ? "backward" : line, operation, answer});
  }
  std::ranges::stable_sort(events, std::greater(),
                           [](const Event& e) { return std::pair(e.decides, e.count); });
  return events;
}

}  // namespace

std::vector<json> read_records(const std::filesystem::path& folder) {
  std::vector<json> records;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".json") continue;
    std::ifstream text(file.path());
    json record = json::parse(text, nullptr, false);
    if (!record.is_discarded()) records.push_back(std::move(record));
  }
  const auto place = [](const json& one) {
    return std::pair(one["rank"].is_null() ? -1 : one["rank"].get<int>(), one["pid"].get<int>());
  };
  std::ranges::sort(records, {}, place);
  return records;
}

std::string table(const std::vector<json>& records) {
  Bytes largest = 0;
  for (const json& record : records)
    for (const json& device : record["devices"])
      largest = std::max(largest, device["reserved"].get<Bytes>());
  const ByteUnit unit = unit_for(largest);
  std::string text = fmt::format("{:<18} {:>12} {:>12} {:>12} {:>8} {:>6} {:>6}\n",
                                 fmt::format("peaks, {}", unit.name), "allocated", "active",
                                 "reserved", "retries", "ooms", "races");
  for (const json& record : records) {
    for (const json& device : record["devices"]) {
      text += fmt::format(
          "{:<18} {:>12} {:>12} {:>12} {:>8} {:>6} {:>6}{}\n", place_of(record, device),
          unit(device["allocated"]), unit(device["active"]), unit(device["reserved"]),
          device["retries"].get<int>(), device["ooms"].get<int>(), record["races"].size(),
          record["ended"] ? "" : "  (ended early: as of half a second before)");
    }
  }
  return text;
}

std::string decisions(const std::vector<json>& records) {
  std::vector<std::string> places;
  for (const Event& event : events_of(records))
    if (event.decides && std::ranges::find(places, event.line) == places.end())
      places.push_back(event.line);
  if (places.empty()) return "";
  const std::size_t shown = std::min<std::size_t>(places.size(), 3);
  return fmt::format(
      "control flow hung on values that are not known: {}{}\n",
      fmt::join(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < places.size() ? fmt::format(" and {} more", places.size() - shown) : "");
}

std::string unknowns(const std::vector<json>& records) {
  constexpr std::size_t kMost = 10;
  const std::vector<Event> events = events_of(records);
  std::int64_t stood_in = 0;
  for (const json& record : records) stood_in += record.value("stood_in", 0);
  std::string text;
  if (stood_in > 0)
    text = fmt::format("{} used the rank's own values for those of absent partners\n",
                       plural(stood_in, "collective"));
  if (events.empty()) return text;
  text += "values that were not known, and what the program was told:\n";
  for (std::size_t i = 0; i < std::min(events.size(), kMost); ++i) {
    const Event& e = events[i];
    text +=
        fmt::format("  {}  {}  {}, {}\n", e.line, e.operation, e.answer, plural(e.count, "time"));
  }
  if (events.size() > kMost)
    text += fmt::format("  and {} more (--out has all)\n", events.size() - kMost);
  return text;
}

std::vector<std::string> failures(const std::vector<json>& records, const Wishes& wishes) {
  std::vector<std::string> lines;
  if (wishes.any() && records.empty())
    lines.push_back("unknown: no process has recorded CUDA memory, so nothing was measured");
  for (const json& record : records) {
    if (wishes.any() && !record["ended"].get<bool>())
      lines.push_back(
          fmt::format("unknown: {} was killed, and its figures are of at most half a second before",
                      name_of(record)));
    for (const json& device : record["devices"]) {
      const auto peak = device["allocated"].get<Bytes>();
      if (wishes.max_peak && peak > *wishes.max_peak) {
        lines.push_back(fmt::format("--max-peak: {} allocated {} bytes, {} more than {}",
                                    place_of(record, device), exact(static_cast<double>(peak)),
                                    exact(static_cast<double>(peak - *wishes.max_peak)),
                                    exact(static_cast<double>(*wishes.max_peak))));
      }
      if (const int retries = device["retries"]; wishes.no_retries && retries > 0) {
        lines.push_back(fmt::format(
            "--no-retries: the allocator of {} freed its cached memory and tried again {}",
            place_of(record, device), plural(retries, "time")));
      }
    }
    if (wishes.no_races && !record["races"].empty()) {
      lines.push_back(fmt::format("--no-races: {} has {}: {}", name_of(record),
                                  plural(static_cast<std::int64_t>(record["races"].size()), "race"),
                                  record["races"][0]["explanation"].get<std::string>()));
    }
  }
  return lines;
}

}  // namespace tidemark
