#include "harness/exec/wishes.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/errors.h"
#include "harness/record/json.h"
#include "reports/compare/compare.h"
#include "reports/compare/render.h"
#include "reports/program/places.h"
#include "reports/units.h"

namespace tidemark {

std::vector<std::string> failures(const ProgramRecord& program, const Wishes& wishes) {
  std::vector<std::string> lines;
  if (wishes.any() && program.processes.empty())
    lines.push_back("unknown: no process has recorded CUDA memory, so nothing was measured");
  for (const ProcessRecord& process : program.processes) {
    if (wishes.any() && process.devices.empty())
      lines.push_back("unknown: " + unrecorded(process));
    else if (wishes.any() && !process.ended)
      lines.push_back(fmt::format("unknown: {} was killed {}: its peaks are those until then",
                                  name_of(process), process.last));
    for (const DeviceRecord& device : process.devices) {
      if (wishes.max_peak && device.allocated > *wishes.max_peak)
        lines.push_back(fmt::format("--max-peak: {} allocated {} bytes, {} more than {}",
                                    place_of(process, device),
                                    exact(static_cast<double>(device.allocated)),
                                    exact(static_cast<double>(device.allocated - *wishes.max_peak)),
                                    exact(static_cast<double>(*wishes.max_peak))));
      if (wishes.no_retries && device.retries > 0)
        lines.push_back(fmt::format(
            "--no-retries: the allocator of {} freed its cached memory and tried again {}",
            place_of(process, device), plural(device.retries, "time")));
    }
    if (wishes.no_races && !process.races.empty())
      lines.push_back(fmt::format("--no-races: {} has {}: {}", name_of(process),
                                  plural(std::ssize(process.races), "race"),
                                  process.races.front().explanation));
  }
  return lines;
}

Report read_base(const std::filesystem::path& path) {
  Report base;
  try {
    base = read_report(path);
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("exec: --compare ") + error.what());
  }
  const auto has_peak = [](const ProgramRecord& program) {
    return std::ranges::any_of(program.processes, &ProcessRecord::ended);
  };
  if (std::ranges::none_of(base.programs, has_peak))
    throw UsageError("exec: --compare " + path.string() +
                     ": no process of a program has ended with a peak: give what exec --out or "
                     "--report wrote");
  return base;
}

PeakRegressions grown(const Report& base, const Report& now,
                      const std::vector<Threshold>& thresholds) {
  constexpr std::size_t kMost = 8;
  CompareOptions options;
  options.thresholds = thresholds;
  const Comparison comparison = compare(base, now, options);
  PeakRegressions out;
  for (const Change& change : comparison.changes)
    if (change.kind == Kind::memory && change.effect == Effect::regression)
      out.failures.push_back("--compare: " + sentence(change));
  const Side before{"base", base}, after{"new", now};
  out.causes = text_of(causes(comparison, before, after, kMost));
  out.changes = changes_of(comparison, before, after);
  for (const ProgramRecord& program : now.programs)
    for (const ProcessRecord& process : program.processes)
      if (process.devices.empty())
        out.failures.push_back("--compare: unknown: " + unrecorded(process));
  for (const std::string& missing : comparison.missing)
    out.failures.push_back("--compare: unknown: " + missing + " has no peak in this run");
  for (const std::string& fresh : comparison.fresh)
    out.failures.push_back("--compare: unknown: " + fresh + " has no peak in the other run");
  return out;
}

}  // namespace tidemark
