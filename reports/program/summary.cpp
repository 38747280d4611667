// summary.md of a report of programs.
#include <fmt/format.h>

#include <algorithm>

#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/headline.h"
#include "reports/program/finding.h"
#include "reports/program/provenance.h"
#include "reports/program/text.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

/// One unit for all figures of a report, so that they compare.
ByteUnit unit_of(const Report& report) {
  Bytes largest = 0;
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes)
      for (const DeviceRecord& device : process.devices) largest = std::max(largest, device.all());
  return unit_for(largest);
}

std::string peaks_of(const ProgramRecord& program, const ByteUnit& unit) {
  const bool outside = has_outside(program);
  std::string out;
  const std::vector<EqualPeaks> all = equal_peaks(program), groups = highest_of(all);
  for (const auto& [who, count, process, device] : groups)
    out += fmt::format("| {}{} | {} | {} | {} |{} {} | {} | {} |\n", markdown_text(who),
                       process->ended ? "" : " (ended early)", unit(device->allocated),
                       unit(device->active), unit(device->reserved),
                       outside ? fmt::format(" {} |", unit(device->outside)) : "", device->retries,
                       device->ooms, process->races.size());
  if (all.size() > groups.size())
    out += fmt::format("| {} more rows with lower peaks of active | | | | | | |{}\n",
                       all.size() - groups.size(), outside ? " |" : "");
  if (out.empty()) return "";
  return fmt::format(
             "\n| peaks, {} | allocated | active | reserved |{} retries | ooms | races |\n"
             "|---|---:|---:|---:|{}---:|---:|---:|\n",
             unit.name, outside ? " outside |" : "", outside ? "---:|" : "") +
         out;
}

/// `full`: an allocation failed, and the peak is that of the run in which it did.
std::string alive_of(const AliveAtPeak& alive, const ByteUnit& unit, bool full) {
  constexpr std::size_t kRows = 20;
  if (alive.active <= 0) return "";
  std::string out = fmt::format(
      "\nAlive at the highest peak{}, {} of active memory as requested, of {}:\n\n"
      "| {} | share | blocks | kind | module | line |\n|---:|---:|---:|---|---|---|\n",
      full ? " of the run in which an allocation failed" : "", bytes_text(alive.active),
      markdown_text(place_name(alive.where, 0)), unit.name);
  const LargestParts largest = largest_parts(alive, kRows);
  const auto share = [&](Bytes bytes) {
    return 100 * static_cast<double>(bytes) / static_cast<double>(alive.active);
  };
  for (const AlivePart& part : largest.parts)
    out += fmt::format("| {} | {:.1f} % | {} | {} | {} | {} |\n", unit(part.bytes),
                       share(part.bytes), exact(part.count), name_of(part.kind),
                       markdown_text(part.module), markdown_text(part.site));
  if (largest.others > 0)
    out += fmt::format("| {} | {:.1f} % | | {} more | | |\n", unit(largest.rest),
                       share(largest.rest), exact(largest.others));
  return out;
}

}  // namespace

std::string programs_markdown(const Report& report) {
  std::string out = "# " + markdown_text(headline(report)) + "\n\n";
  out += markdown_text(provenance(report)) + "\n\n" + markdown_code(command_of(report)) + "\n";
  const ByteUnit unit = unit_of(report);
  for (const TrialRecord& trial : report.trials) {
    const ProgramRecord& program = *trial.program;
    out += "\n";
    if (report.trials.size() > 1)
      out += fmt::format("## Schedule {}\n\n- {}\n", markdown_text(trial.schedule),
                         markdown_text(finding_in(trial, report.run).text));
    for (const std::string& line : program.findings) out += "- " + markdown_text(line) + "\n";
    if (program.exit_code != 0) out += fmt::format("- exit code {}\n", program.exit_code);
    for (const Verdict& verdict : trial.verdicts)
      if (verdict.status == Status::fail)
        out += "- **FAILED**: " + markdown_text(verdict.why) + "\n";
    out += peaks_of(program, unit);
    const bool full = std::ranges::any_of(program.processes, [](const ProcessRecord& process) {
      return std::ranges::any_of(process.devices,
                                 [](const DeviceRecord& device) { return device.ooms > 0; });
    });
    if (trial.alive) out += alive_of(*trial.alive, unit, full);
  }
  return out;
}

}  // namespace tidemark
