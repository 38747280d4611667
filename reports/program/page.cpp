#include "reports/program/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "harness/virtual/device/text.h"
#include "reports/headline.h"
#include "reports/html.h"
#include "reports/overview.h"
#include "reports/page_data.h"
#include "reports/program/answer.h"
#include "reports/program/picture_data.h"
#include "reports/program/text.h"
#include "reports/renderings.h"
#include "reports/snapshot/render.h"

namespace tidemark {

namespace fs = std::filesystem;

namespace {

std::string figure(Bytes bytes) {
  const std::string all = exact(bytes) + " bytes";
  return bytes_text(bytes) == all ? all : fmt::format("{} ({})", bytes_text(bytes), all);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  TextIn in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Section peaks(const Report& report) {
  Section out{
      "Peaks by rank",
      {fmt::format(
          "Peaks of PyTorch's caching allocator over the whole process, on the virtual GPU "
          "{}{} in mode {}.",
          report.run.profile,
          report.run.capacity_bytes > 0 ? " with " + bytes_text(report.run.capacity_bytes) : "",
          name_of(report.trials.front().mode))},
      {},
      {{"rank", "schedule", "allocated", "active", "reserved", "retries", "ooms", "races", "end"}}};
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes)
      if (process.devices.empty())
        out.text.push_back(unrecorded(process) + ".");
      else if (!process.ended)
        out.text.push_back(fmt::format("{} ended early {}: its peaks are those until then.",
                                       name_of(process), process.last));
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes)
      for (const DeviceRecord& device : process.devices)
        out.rows.push_back({place_of(process, device), trial.schedule, figure(device.allocated),
                            figure(device.active), figure(device.reserved),
                            std::to_string(device.retries), std::to_string(device.ooms),
                            std::to_string(process.races.size()),
                            process.ended ? "by itself" : "early"});
  return out;
}

std::vector<Section> run_ahead_sections(const Report& report) {
  std::vector<Section> out;
  if (report.trials.size() < 2) return out;
  out.push_back(
      {"Between the schedules",
       {"Peaks of active memory in bytes, under every schedule of the virtual device. The "
        "difference between them depends on how far the host runs ahead of the device."},
       {},
       bracket(report.trials)});
  const RunAhead ahead = run_ahead(report.trials);
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
    parts.rows.push_back({exact(part.bytes), std::to_string(part.count), name_of(part.kind),
                          part.module, part.site});
  out.push_back(std::move(parts));
  return out;
}

/// Checks of the run, a row each: the measured and the expected value.
Section checks_of(const Report& report) {
  Section out{"Checks", {}, {}, {{"where", "schedule", "check", "measured", "expected", "result"}}};
  for (const TrialRecord& trial : report.trials)
    for (const Verdict& one : trial.verdicts)
      if (one.measured)
        out.rows.push_back({one.variant, trial.schedule, one.name, measured_text(one),
                            expected_text(one), name_of(one.status)});
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

std::vector<Section> sections_of_peak(const HighestPeak& peak) {
  const DeviceSummary& d = peak.device;
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
  std::vector<std::string> none, unknown;
  for (const Waste& waste : d.wastes) {
    if (!waste.bytes || *waste.bytes == 0) {
      (waste.bytes ? none : unknown).push_back(waste.name);
      continue;
    }
    wastes.rows.push_back({waste.name,
                           fmt::format("{} of {}{}", figure(*waste.bytes), figure(waste.active),
                                       waste.process.empty() ? "" : ", of " + waste.process),
                           "", "", ""});
    for (const Part& part : waste.parts)
      wastes.rows.push_back(
          {"", figure(part.bytes), std::to_string(part.count), part.module, part.site});
  }
  if (!none.empty()) wastes.text.push_back(fmt::format("None: {}.", fmt::join(none, "; ")));
  if (!unknown.empty())
    wastes.text.push_back(
        fmt::format("Not known, since their moment has not come: {}.", fmt::join(unknown, "; ")));
  return {std::move(wastes), std::move(phases), std::move(end)};
}

}  // namespace

std::string program_page(const Report& report, const std::vector<HighestPeak>& peaks_of,
                         const fs::path& folder, const Changes* changes) {
  const ProgramRecord& first = *report.trials.front().program;
  Document out{"exec", headline(report), headline_status(report), {}};
  if (changes != nullptr) {
    out.headline += "; against the other run: " + changes->result;
    if (changes->status == Status::fail) out.status = Status::fail;
  }
  const HighestPeak* highest = highest_of(peaks_of);
  out.sections.push_back({"", answer(report, peaks_of)});
  Section failed{"Verdicts that failed"};
  bool measured = false;
  for (const TrialRecord& trial : report.trials) {
    const std::string where = report.trials.size() > 1 ? trial.schedule + ": " : "";
    for (const Verdict& verdict : trial.verdicts)
      if (verdict.status == Status::fail) failed.text.push_back(where + verdict.why);
    measured = measured || !trial.program->processes.empty();
  }
  if (!failed.text.empty()) out.sections.push_back(std::move(failed));
  if (Section checks = checks_of(report); checks.rows.size() > 1)
    out.sections.push_back(std::move(checks));
  if (changes != nullptr)
    out.sections.insert(out.sections.end(), changes->sections.begin(), changes->sections.end());
  if (const std::string decided = decisions(first); !decided.empty())
    out.sections.push_back(
        {"The program branched on values that are not known", lines_of(decided)});
  if (const auto data = picture_data(report, peaks_of, folder / "report.html"); !data.is_null())
    out.sections.push_back({.title = "Memory over time", .memory = packed(data)});
  if (highest != nullptr)
    for (Section& section : sections_of_peak(*highest)) out.sections.push_back(std::move(section));
  if (measured) out.sections.push_back(peaks(report));
  for (Section& section : run_ahead_sections(report)) out.sections.push_back(std::move(section));
  if (Section calls = collectives(first); !calls.rows.empty())
    out.sections.push_back(std::move(calls));
  Section races{"Races"};
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes)
      for (const Race& race : process.races)
        races.text.push_back(name_of(process) + ": " + race.explanation);
  if (!races.text.empty()) out.sections.push_back(std::move(races));
  if (const std::string values = unknowns(first); !values.empty())
    out.sections.push_back({"Values that were not known", lines_of(values)});
  return html(out);
}

std::vector<File> program_files(const Report& report, const std::vector<HighestPeak>& peaks,
                                const fs::path& folder, const Changes* changes) {
  std::vector<File> files{{"report.html", program_page(report, peaks, folder, changes)},
                          {"summary.md", markdown(report)},
                          {"junit.xml", junit(report)}};
  return files;
}

void rerender_programs(const fs::path& folder, const Report& report, const Changes* changes) {
  std::vector<HighestPeak> peaks;
  for (const TrialRecord& trial : report.trials)
    peaks.push_back(highest_peak(folder, trial.schedule));
  write_files(folder, program_files(report, peaks, folder, changes), "make the folder writable");
}

}  // namespace tidemark
