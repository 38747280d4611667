#include "harness/exec/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "harness/exec/report.h"
#include "reports/html.h"
#include "reports/snapshot/parts.h"
#include "reports/thin.h"
#include "reports/units.h"

namespace tidemark {
namespace {

using nlohmann::json;

std::string figure(Bytes bytes) {
  const std::string all = exact(static_cast<double>(bytes)) + " bytes";
  return bytes_text(bytes) == all ? all : fmt::format("{} ({})", bytes_text(bytes), all);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "Peak: 39.2 GiB allocated, 49.6 GiB reserved", of the device that has most of each, after how the
// program ended where it did not end well.
std::string headline(const ProgramRun& run) {
  Bytes allocated = 0, reserved = 0;
  bool full = false;
  for (const json& record : run.records)
    for (const json& device : record["devices"]) {
      allocated = std::max(allocated, device["allocated"].get<Bytes>());
      reserved = std::max(reserved, device["reserved"].get<Bytes>());
      full = full || device["ooms"].get<int>() > 0;
    }
  const std::string end = run.exit_code == 0
                              ? ""
                              : fmt::format("Exit code {}{}. ", run.exit_code,
                                            full ? " after running out of memory" : "");
  if (run.records.empty()) return end + "No process of the program has recorded CUDA memory";
  return fmt::format("{}Peak: {} allocated, {} reserved", end, bytes_text(allocated),
                     bytes_text(reserved));
}

Section peaks(const ProgramRun& run) {
  Section out{"Peaks by rank",
              {"Of PyTorch's caching allocator, over the whole process. The GPU is virtual: " +
               run.gpu + ", mode " + run.mode + "."},
              {},
              {{"rank", "allocated", "active", "reserved", "retries", "ooms", "races", ""}}};
  for (const json& record : run.records)
    for (const json& device : record["devices"])
      out.rows.push_back(
          {place_of(record, device), figure(device["allocated"]), figure(device["active"]),
           figure(device["reserved"]), std::to_string(device["retries"].get<int>()),
           std::to_string(device["ooms"].get<int>()), std::to_string(record["races"].size()),
           record["ended"] ? "" : "ended early: as of half a second before"});
  return out;
}

// Of all processes together, which is what a network carries.
Section collectives(const ProgramRun& run) {
  using Key = std::tuple<std::string, int, std::string>;
  struct Sum {
    std::int64_t processes = 0, calls = 0, bytes = 0;
  };
  std::map<Key, Sum> sums;
  for (const json& record : run.records)
    for (const json& one : record.value("collectives", json::array())) {
      Sum& sum = sums[{one["communicator"], one["ranks"], one["function"]}];
      sum.processes += 1;
      sum.calls += one["calls"].get<std::int64_t>();
      sum.bytes += one["bytes"].get<std::int64_t>();
    }
  Section out{"Collectives by communicator",
              {"NCCL calls of all processes of this run. The bytes of a call are those of the "
               "larger of its two buffers."},
              {},
              {}};
  for (const auto& [key, sum] : sums) {
    const auto& [name, ranks, function] = key;
    out.rows.push_back({name, std::to_string(ranks), std::to_string(sum.processes), function,
                        exact(static_cast<double>(sum.calls)), figure(sum.bytes)});
  }
  if (!out.rows.empty())
    out.rows.insert(out.rows.begin(),
                    {"communicator", "its ranks", "processes here", "call", "calls", "bytes"});
  return out;
}

std::vector<Section> alive(const HighestPeak& peak) {
  const DeviceSummary& d = peak.device;
  const auto sum = static_cast<double>(d.peak.active);
  Section kinds{"Alive at the highest peak",
                {fmt::format("The highest peak of active memory is {}'s: {} as requested. Every "
                             "block has one kind, so the parts sum to the peak.",
                             peak.file.stem().string(), figure(d.peak.active)),
                 fmt::format("Reserved at that moment: {}.", figure(d.peak.reserved))},
                {},
                {{"kind", "bytes", "part"}}};
  if (const std::string oom = oom_text(d); !oom.empty())
    kinds.text.insert(kinds.text.begin(), "At the last " + oom + ".");
  Section parts{
      "The same by module and line", {}, {}, {{"bytes", "blocks", "kind", "module", "line"}}};
  for (const TensorKind& kind : kinds_of(d.parts))
    kinds.rows.push_back({kind.name, figure(kind.bytes),
                          fmt::format("{:.1f} %", 100 * static_cast<double>(kind.bytes) / sum)});
  for (const Part& part : d.parts)
    parts.rows.push_back({exact(static_cast<double>(part.bytes)), std::to_string(part.count),
                          part.kind, part.module, part.site});
  constexpr std::size_t kMostPoints = 4000;
  const auto active_at = [&](std::size_t i) { return static_cast<double>(d.curve[i].active); };
  const auto reserved_at = [&](std::size_t i) { return static_cast<double>(d.curve[i].reserved); };
  Line active{"active", {}}, reserved{"reserved", {}};
  for (const std::size_t i : extremes(d.curve.size(), kMostPoints, {active_at, reserved_at})) {
    active.points.emplace_back(i + 1, active_at(i));
    reserved.points.emplace_back(i + 1, reserved_at(i));
  }
  Section time{
      "Memory over the allocator's events",
      {fmt::format("Active as requested; reserved as taken from the device. Of {}, at "
                   "least every highest and lowest of a stretch is drawn.",
                   plural(std::ssize(d.curve), "event"))},
      {{"Active and reserved", "event", "memory", true, {std::move(active), std::move(reserved)}}},
      {}};
  const Fragmentation& f = d.fragmentation;
  Section end{"Left at the program's end",
              {fmt::format("Allocated {}, reserved {}.", figure(f.allocated), figure(f.reserved)),
               fmt::format("Free in {} of segments in use: {}; in free segments: {}.",
                           plural(f.fragments, "fragment"), figure(f.free_in_used),
                           figure(f.free_segments))},
              {},
              {}};
  constexpr std::size_t kSteps = 8;
  Section phases{"Peaks by step and phase",
                 {"Of active bytes, as requested, on the same device: the first steps, the highest "
                  "and the last. A step ends with the program's optimizers."},
                 {},
                 phase_rows(d, kSteps)};
  Section wastes{"Held without need",
                 {"Memory that the program has and does not need, on the same device; bytes as "
                  "requested, out of all that is active at that moment."},
                 {},
                 {{"what", "bytes", "blocks", "module", "line"}}};
  for (const Waste& waste : d.wastes) {
    wastes.rows.push_back({waste.name,
                           waste.bytes
                               ? fmt::format("{} of {}", figure(*waste.bytes), figure(waste.active))
                               : "not known: no optimizer of torch.optim has stepped",
                           "", "", ""});
    for (const Part& part : waste.parts)
      wastes.rows.push_back({"", exact(static_cast<double>(part.bytes)), std::to_string(part.count),
                             part.module, part.site});
  }
  return {std::move(kinds), std::move(phases), std::move(wastes),
          std::move(time),  std::move(parts),  std::move(end)};
}

}  // namespace

std::string program_page(const ProgramRun& run) {
  Document out{"exec",
               headline(run),
               run.failed.empty() && run.exit_code == 0 ? Status::pass : Status::fail,
               {{"", {fmt::format("{}", fmt::join(run.program, " "))}, {}, {}}}};
  if (!run.failed.empty()) out.sections.push_back({"Verdicts that failed", run.failed, {}, {}});
  if (const std::string decided = decisions(run.records); !decided.empty())
    out.sections.push_back(
        {"The program branched by values that are not known", lines_of(decided), {}, {}});
  if (!run.records.empty()) out.sections.push_back(peaks(run));
  if (run.peak.file.empty()) {
    out.sections.push_back({"Alive at the highest peak",
                            {"Not known: no process of the program has ended with a snapshot."},
                            {},
                            {}});
  } else {
    for (Section& section : alive(run.peak)) out.sections.push_back(std::move(section));
  }
  if (Section calls = collectives(run); !calls.rows.empty())
    out.sections.push_back(std::move(calls));
  Section races{"Races", {}, {}, {}};
  for (const json& record : run.records)
    for (const json& race : record["races"])
      races.text.push_back(name_of(record) + ": " + race["explanation"].get<std::string>());
  if (!races.text.empty()) out.sections.push_back(std::move(races));
  if (const std::string told = unknowns(run.records); !told.empty())
    out.sections.push_back({"Values that were not known", lines_of(told), {}, {}});
  return html(out);
}

}  // namespace tidemark
