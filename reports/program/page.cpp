#include "reports/program/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "harness/virtual/device/text.h"
#include "reports/headline.h"
#include "reports/html.h"
#include "reports/overview.h"
#include "reports/program/answer.h"
#include "reports/program/provenance.h"
#include "reports/program/sections.h"
#include "reports/program/text.h"
#include "reports/renderings.h"

namespace tidemark {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  TextIn in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<Section> run_ahead_sections(const Report& report) {
  std::vector<Section> out;
  if (report.trials.size() < 2) return out;
  out.push_back({"Between the schedules",
                 {"Peaks of active memory in whole blocks under every schedule of the virtual "
                  "device. The difference between them depends on how far the host runs ahead of "
                  "the device."},
                 {},
                 bracket(report.trials, figure_cell)});
  const RunAhead ahead = run_ahead(report.trials);
  if (ahead.parts.empty()) return out;
  Section parts{
      "What the schedule with the highest peak holds beyond the lowest",
      {fmt::format("The highest peaks are: {} under {}, {}, and {} under {}, {}, as requested. The "
                   "parts sum to the difference.",
                   place_name(ahead.high->alive->where, 0), ahead.high->schedule,
                   bytes_text(ahead.high->alive->active), place_name(ahead.low->alive->where, 0),
                   ahead.low->schedule, bytes_text(ahead.low->alive->active))},
      {},
      {{"memory", "blocks", "kind", "module", "line"}}};
  for (const AlivePart& part : ahead.parts)
    parts.rows.push_back({figure_cell(part.bytes), std::to_string(part.count), name_of(part.kind),
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
        out.rows.push_back({one.variant, trial.schedule, one.name,
                            sized_cell(measured_text(one), measured_size(one)),
                            sized_cell(expected_text(one), expected_size(one)),
                            name_of(one.status)});
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
                        exact(sum.calls), figure_cell(sum.bytes)});
  }
  if (!out.rows.empty())
    out.rows.insert(out.rows.begin(),
                    {"communicator", "its ranks", "processes here", "call", "calls", "memory"});
  return out;
}

/// The record, the summaries and what each process has left, by their paths in the folder.
Section files_beside(const Report& report, const fs::path& folder) {
  Section out{
      "Files",
      {"tidemark open FILE shows a record in PyTorch's memory_viz, and a trace in Perfetto."}};
  out.files = {"report.json", "summary.md", "junit.xml"};
  std::set<std::string> left;
  for (const TrialRecord& trial : report.trials) {
    std::error_code none;
    const fs::path own = snapshots_of(folder, trial.schedule);
    for (const fs::path& place : {own, own / kRoomFolder})
      for (const auto& file : fs::directory_iterator(place, none)) {
        const std::string name = file.path().filename();
        if (name.ends_with(".record") || name.ends_with(".pickle") ||
            name.ends_with(".trace.json.gz"))
          left.insert(file.path().lexically_relative(folder).generic_string());
      }
  }
  out.files.insert(out.files.end(), left.begin(), left.end());
  return out;
}

}  // namespace

TextMaker program_page(const Report& report, const std::vector<HighestPeak>& peaks_of,
                       const fs::path& folder, const Changes* changes) {
  const ProgramRecord& first = *report.trials.front().program;
  Document out{"", headline(report), headline_status(report), {}};
  out.facts = {provenance(report), command_of(report)};
  out.markdown = markdown(report);
  if (changes != nullptr) {
    out.headline += "; against the other run: " + changes->result;
    if (changes->status == Status::fail) out.status = Status::fail;
  }
  const HighestPeak* highest = highest_of(peaks_of);
  out.sections.push_back({"", answer(report, peaks_of)});
  Section failed{.title = "Verdicts that failed", .folded = true};
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
  if (auto memory = memory_section(
          peaks_of, {report.run.profile, report.run.capacity_bytes, folder / "report.html"}))
    out.sections.push_back(*std::move(memory));
  if (highest != nullptr)
    for (Section& section : sections_of(highest->device))
      out.sections.push_back(std::move(section));
  if (measured) out.sections.push_back(peaks_section(report));
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
  if (changes != nullptr)
    out.sections.insert(out.sections.end(), changes->lists.begin(), changes->lists.end());
  out.sections.push_back(files_beside(report, folder));
  return page_of(std::move(out));
}

std::vector<File> program_files(const Report& report, const std::vector<HighestPeak>& peaks,
                                const fs::path& folder, const Changes* changes) {
  return {{.path = "report.html", .text = program_page(report, peaks, folder, changes)},
          {.path = "summary.md", .text = [&report](const Put& put) { put(markdown(report)); }},
          {.path = "junit.xml", .text = [&report](const Put& put) { put(junit(report)); }}};
}

void rerender_programs(const fs::path& folder, const Report& report, const Changes* changes) {
  std::vector<HighestPeak> peaks;
  for (const TrialRecord& trial : report.trials)
    peaks.push_back(highest_peak(folder, trial.schedule));
  write_files(folder, program_files(report, peaks, folder, changes), "make the folder writable");
}

}  // namespace tidemark
