#include "reports/program/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "reports/headline.h"
#include "reports/html.h"
#include "reports/program/places.h"
#include "reports/program/text.h"
#include "reports/renderings.h"
#include "reports/snapshot/parts.h"
#include "reports/thin.h"
#include "reports/units.h"

namespace tidemark {

namespace fs = std::filesystem;

namespace {

std::string figure(Bytes bytes) {
  const std::string all = exact(bytes) + " bytes";
  return bytes_text(bytes) == all ? all : fmt::format("{} ({})", bytes_text(bytes), all);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Section peaks(const Report& report) {
  Section out{
      "Peaks by rank",
      {fmt::format(
          "Peaks of PyTorch's caching allocator over the whole process, on the virtual GPU "
          "{} in mode {}.",
          report.run.profile, report.programs.front().mode)},
      {},
      {{"rank", "schedule", "allocated", "active", "reserved", "retries", "ooms", "races", ""}}};
  for (const ProgramRecord& program : report.programs)
    for (const ProcessRecord& process : program.processes)
      if (process.devices.empty())
        out.text.push_back(unrecorded(process) + ".");
      else if (!process.ended)
        out.text.push_back(fmt::format("{} ended early {}: its peaks are those until then.",
                                       name_of(process), process.last));
  for (const ProgramRecord& program : report.programs)
    for (const ProcessRecord& process : program.processes)
      for (const DeviceRecord& device : process.devices)
        out.rows.push_back({place_of(process, device), program.schedule, figure(device.allocated),
                            figure(device.active), figure(device.reserved),
                            std::to_string(device.retries), std::to_string(device.ooms),
                            std::to_string(process.races.size()),
                            process.ended ? "" : "ended early"});
  return out;
}

std::vector<Section> run_ahead_sections(const Report& report) {
  std::vector<Section> out;
  if (report.programs.size() < 2) return out;
  out.push_back(
      {"Between the schedules",
       {"Peaks of active memory in bytes, under every schedule of the virtual device. The "
        "difference between them depends on how far the host runs ahead of the device."},
       {},
       bracket(report.programs)});
  const RunAhead ahead = run_ahead(report.programs);
  if (ahead.parts.empty()) return out;
  Section parts{
      "What the schedule with the highest peak holds beyond the lowest",
      {fmt::format("The highest peaks are: {} under {}, {}, and {} under {}, {}, in bytes as "
                   "requested. The parts sum to the difference.",
                   ahead.high->alive->where, ahead.high->schedule,
                   figure(ahead.high->alive->active), ahead.low->alive->where, ahead.low->schedule,
                   figure(ahead.low->alive->active))},
      {},
      {{"bytes", "blocks", "kind", "module", "line"}}};
  for (const AlivePart& part : ahead.parts)
    parts.rows.push_back(
        {exact(part.bytes), std::to_string(part.count), part.kind, part.module, part.site});
  out.push_back(std::move(parts));
  return out;
}

// Collectives of all processes together, which is the load of a network.
Section collectives(const ProgramRecord& program) {
  using Key = std::tuple<std::string, int, std::string>;
  struct Sum {
    std::int64_t processes = 0, calls = 0, bytes = 0;
  };
  std::map<Key, Sum> sums;
  for (const ProcessRecord& process : program.processes)
    for (const CollectiveCalls& one : process.collectives) {
      Sum& sum = sums[{one.communicator, one.ranks, one.function}];
      sum.processes += 1, sum.calls += one.calls, sum.bytes += one.bytes;
    }
  Section out{"Collectives by communicator",
              {"NCCL calls of all processes of this run. The bytes of a call are those of the "
               "larger of its two buffers."}};
  for (const auto& [key, sum] : sums) {
    const auto& [name, ranks, function] = key;
    out.rows.push_back({name, std::to_string(ranks), std::to_string(sum.processes), function,
                        exact(sum.calls), figure(sum.bytes)});
  }
  if (!out.rows.empty())
    out.rows.insert(out.rows.begin(),
                    {"communicator", "its ranks", "processes here", "call", "calls", "bytes"});
  return out;
}

std::vector<Section> alive(const HighestPeak& peak) {
  const DeviceSummary& d = peak.device;
  const auto sum = static_cast<double>(d.peak.active);
  Section kinds{
      "Alive at the highest peak",
      {fmt::format(
           "The highest peak of active memory is that of {}: {}, in bytes as requested. Every "
           "block has one kind, so the parts sum to the peak.",
           peak.file.stem().string(), figure(d.peak.active)),
       fmt::format("Reserved at that moment: {}.", figure(d.peak.reserved))},
      {},
      {{"kind", "bytes", "share"}}};
  for (const OutOfMemory& oom : peak.ooms)
    kinds.text.insert(kinds.text.begin(), oom.process + ": " + oom_text(oom) + ".");
  Section parts{"Alive at the highest peak, by module and line",
                {},
                {},
                {{"bytes", "blocks", "kind", "module", "line"}}};
  for (const TensorKind& kind : kinds_of(d.parts))
    kinds.rows.push_back({kind.name, figure(kind.bytes),
                          fmt::format("{:.1f} %", 100 * static_cast<double>(kind.bytes) / sum)});
  for (const Part& part : d.parts)
    parts.rows.push_back(
        {exact(part.bytes), std::to_string(part.count), part.kind, part.module, part.site});
  constexpr std::size_t kMostPoints = 4000;
  const auto active_at = [&](std::size_t i) { return static_cast<double>(d.curve[i].active); };
  const auto reserved_at = [&](std::size_t i) { return static_cast<double>(d.curve[i].reserved); };
  Line active{"active"}, reserved{"reserved"};
  for (const std::size_t i : extremes(d.curve.size(), kMostPoints, {active_at, reserved_at})) {
    active.points.emplace_back(i + 1, active_at(i));
    reserved.points.emplace_back(i + 1, reserved_at(i));
  }
  Section time{
      "Memory over the allocator's events",
      {fmt::format("Active memory in bytes as requested, and reserved memory. The trace has {}; at "
                   "least the highest and the lowest of every stretch are drawn.",
                   plural(std::ssize(d.curve), "event"))},
      {{"Active and reserved", "event", "memory", true, {std::move(active), std::move(reserved)}}}};
  const Fragmentation& f = d.fragmentation;
  Section end{"Left at the program's end",
              {fmt::format("Allocated {}, reserved {}.", figure(f.allocated), figure(f.reserved)),
               fmt::format("Free in {} of segments in use: {}; in free segments: {}.",
                           plural(f.fragments, "fragment"), figure(f.free_in_used),
                           figure(f.free_segments))}};
  constexpr std::size_t kSteps = 8;
  Section phases{
      "Peaks by step and phase",
      {"Peaks of active bytes, as requested, on the same device, in the first steps, the "
       "highest and the last. A step ends with the program's optimizers."},
      {},
      phase_rows(d, kSteps)};
  if (phases.rows.empty())
    phases.text = {"The program ran no phase: no module, backward or optimizer."};
  for (const std::string& line : repeats_lines(d)) phases.text.push_back(line + ".");
  Section wastes{"Held without need",
                 {"Memory on the same device that the program keeps and does not need, in bytes as "
                  "requested, beside all active bytes of that moment."},
                 {},
                 {{"kind", "bytes", "blocks", "module", "line"}}};
  for (const Waste& waste : d.wastes) {
    wastes.rows.push_back({waste.name, waste_figure(waste), "", "", ""});
    for (const Part& part : waste.parts)
      wastes.rows.push_back(
          {"", exact(part.bytes), std::to_string(part.count), part.module, part.site});
  }
  return {std::move(kinds), std::move(phases), std::move(wastes),
          std::move(time),  std::move(parts),  std::move(end)};
}

}  // namespace

std::string program_page(const Report& report, const std::vector<HighestPeak>& peaks_of) {
  const ProgramRecord& first = report.programs.front();
  Document out{"exec",
               headline(report),
               headline_status(report),
               {{"", {fmt::format("{}", fmt::join(first.program, " "))}}}};
  Section failed{"Verdicts that failed"};
  bool measured = false;
  for (const ProgramRecord& program : report.programs) {
    for (const std::string& line : program.failures)
      failed.text.push_back(report.programs.size() > 1 ? program.schedule + ": " + line : line);
    measured = measured || !program.processes.empty();
  }
  if (!failed.text.empty()) out.sections.push_back(std::move(failed));
  if (const std::string decided = decisions(first); !decided.empty())
    out.sections.push_back(
        {"The program branched on values that are not known", lines_of(decided)});
  if (measured) out.sections.push_back(peaks(report));
  for (Section& section : run_ahead_sections(report)) out.sections.push_back(std::move(section));
  const HighestPeak* highest = highest_of(peaks_of);
  if (highest == nullptr) {
    out.sections.push_back({"Alive at the highest peak",
                            {"Not known: no process that has ended left a memory snapshot."}});
  } else {
    for (Section& section : alive(*highest)) out.sections.push_back(std::move(section));
  }
  if (Section calls = collectives(first); !calls.rows.empty())
    out.sections.push_back(std::move(calls));
  Section races{"Races"};
  for (const ProgramRecord& program : report.programs)
    for (const ProcessRecord& process : program.processes)
      for (const Race& race : process.races)
        races.text.push_back(name_of(process) + ": " + race.explanation);
  if (!races.text.empty()) out.sections.push_back(std::move(races));
  if (const std::string values = unknowns(first); !values.empty())
    out.sections.push_back({"Values that were not known", lines_of(values)});
  return html(out);
}

std::vector<File> program_files(const Report& report, const std::vector<HighestPeak>& peaks) {
  return {{"report.html", program_page(report, peaks)},
          {"summary.md", markdown(report)},
          {"junit.xml", junit(report)}};
}

void rerender_programs(const fs::path& folder, const Report& report) {
  std::vector<HighestPeak> peaks;
  for (const ProgramRecord& program : report.programs)
    peaks.push_back(highest_peak(snapshots_of(folder, program.schedule), program.schedule));
  write_files(folder, program_files(report, peaks), "make the folder writable");
}

}  // namespace tidemark
