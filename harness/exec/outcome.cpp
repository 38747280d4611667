#include "harness/exec/outcome.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

/// "in backward of step 2": the phase of the last event of that device.
std::string moment_of(const OutOfMemory& oom, const HighestPeak& peak) {
  for (const MemoryPicture& picture : peak.pictures)
    if (picture.where == oom.process && !picture.events.empty())
      if (const auto* phase = phase_at(picture, picture.events.size() - 1))
        return fmt::format(" in {} of step {}", one_line(phase->name), phase->step);
  return "";
}

/// " on rank 3"; nothing of a program with one device.
std::string on_place(const ProgramRecord& program, const ProcessRecord& process,
                     const DeviceRecord& device) {
  std::size_t devices = 0;
  for (const ProcessRecord& one : program.processes) devices += one.devices.size();
  return devices > 1 || process.rank ? " on " + place_of(process, device) : "";
}

std::string need_text(const std::optional<MemoryNeed>& need, Bytes capacity) {
  if (!need) return "";
  std::string out = fmt::format("; with room the program reserves {}{}",
                                need->until.empty() ? "" : "at least ", bytes_text(need->reserved));
  if (need->reserved > capacity) out += ", " + bytes_text(need->reserved - capacity) + " more";
  return need->until.empty() ? out : out + " (" + need->until + ")";
}

void add_failures(std::vector<std::string>& out, const TrialRecord& trial, const HighestPeak& peak,
                  const RunRecord& run) {
  const ProgramRecord& program = *trial.program;
  bool full = false;
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) {
      if (device.ooms == 0) continue;
      full = true;
      std::string line = "out of memory" + on_place(program, process, device);
      const auto oom = std::ranges::find_if(peak.ooms, [&](const OutOfMemory& one) {
        return place_name(one.process, 0) == name_of(process);
      });
      if (oom != peak.ooms.end())
        line += fmt::format("{}: {} wanted {}", moment_of(*oom, peak), one_line(oom->site),
                            bytes_text(oom->wanted));
      out.push_back(
          fmt::format("{}: at most {} were reserved of the {} that PyTorch can have on "
                      "{}{}",
                      line, bytes_text(device.reserved), bytes_text(run.capacity_bytes),
                      run.profile, need_text(program.needs, run.capacity_bytes)));
    }
  if (program.exit_code != 0 && !full)
    out.push_back(fmt::format("the program ended with exit code {}", program.exit_code));
}

void add_fit(std::vector<std::string>& out, const ProgramRecord& program, const RunRecord& run) {
  const DeviceRecord* most = nullptr;
  const ProcessRecord* where = nullptr;
  std::int64_t retries = 0;
  for (const ProcessRecord& process : program.processes) {
    if (!process.ended || process.devices.empty()) return;
    for (const DeviceRecord& device : process.devices) {
      if (device.ooms > 0) return;
      retries += device.retries;
      if (most == nullptr || device.reserved > most->reserved) most = &device, where = &process;
    }
  }
  if (most == nullptr || program.exit_code != 0 || run.capacity_bytes <= 0) return;
  out.push_back(fmt::format("fits {}: at most {} are reserved{} of the {} that PyTorch can have{}",
                            run.profile, bytes_text(most->reserved),
                            on_place(program, *where, *most), bytes_text(run.capacity_bytes),
                            retries > 0 ? ", after " + plural(retries, "retry", "retries") : ""));
}

}  // namespace

std::vector<std::string> outcome_of(const TrialRecord& trial, const HighestPeak& peak,
                                    const RunRecord& run) {
  std::vector<std::string> out;
  add_failures(out, trial, peak, run);
  const bool full = !out.empty();
  if (const StepGrowth* most = worst_growth(peak))
    out.push_back(growth_text(*most, full ? 0 : run.capacity_bytes));
  add_fit(out, *trial.program, run);
  return out;
}

const StepGrowth* worst_growth(const HighestPeak& peak) {
  const StepGrowth* most = nullptr;
  for (const StepGrowth& one : peak.growths)
    if (most == nullptr || one.rate() > most->rate()) most = &one;
  return most;
}

void settle_capacity(Report& report) {
  bool called = false;
  for (const TrialRecord& trial : report.trials)
    if (trial.program)
      for (const ProcessRecord& process : trial.program->processes)
        called = called || !process.collectives.empty();
  if (called) report.run.capacity_bytes -= report.run.nccl_bytes;
}

std::string advice_command(const std::string& gpu, const std::vector<std::string>& flags,
                           const std::vector<std::string>& program) {
  std::string out = "tidemark advise";
  if (!gpu.empty()) out += " --gpu " + shell_word(gpu);
  for (const std::string& flag : flags) out += " " + shell_word(flag);
  out += " --";
  for (const std::string& word : program) out += " " + shell_word(word);
  return out;
}

}  // namespace tidemark
