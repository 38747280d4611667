#include "harness/exec/outcome.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/program/finding.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

std::string need_text(const std::optional<MemoryNeed>& need, Bytes capacity) {
  if (!need) return "";
  // It ended before it needed more than there is.
  if (need->reserved <= capacity && !need->until.empty())
    return "; the run with room does not show what it needs: " + need->until;
  std::string out = fmt::format("; with room the program reserves {}{}",
                                need->until.empty() ? "" : "at least ", bytes_text(need->reserved));
  if (need->reserved > capacity) out += ", " + bytes_text(need->reserved - capacity) + " more";
  return need->until.empty() ? out : out + " (" + need->until + ")";
}

void add_failures(std::vector<std::string>& out, const TrialRecord& trial, const HighestPeak& peak,
                  const RunRecord& run) {
  const ProgramRecord& program = *trial.program;
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) {
      if (device.ooms == 0) continue;
      std::string line = "out of memory" + on_place(program, process, device);
      if (const OutOfMemory* oom = oom_of(process, device, peak))
        line += fmt::format("{}: {} wanted {}", moment_of(*oom, peak), one_line(oom->site),
                            bytes_text(oom->wanted));
      out.push_back(fmt::format("{}: at most {} were {} of {}{}", line, bytes_text(device.all()),
                                taken_word(device), most_text(device, run),
                                need_text(program.needs, most_of(device, run))));
    }
}

/// Of a process that ran out of memory on a GPU that others used at the same time.
void add_others(std::vector<std::string>& out, const ProgramRecord& program) {
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices)
      for (const SharedGpu& shared : program.shared) {
        const std::string place = place_of(process, device);
        const auto& all = shared.places;
        if (device.ooms == 0 || std::ranges::find(all, place) == all.end()) continue;
        const std::string other = all.front() == place ? all.back() : all.front();
        out.push_back(fmt::format(
            "{} and {} use GPU {} at the same time, and here each has a whole GPU: there {} lacks "
            "also what the others have of it, {} at their peaks",
            place, all.size() == 2 ? other : fmt::format("{} others", all.size() - 1), shared.gpu,
            place, bytes_text(shared.bytes - device.all())));
      }
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
      if (most == nullptr || device.all() > most->all()) most = &device, where = &process;
    }
  }
  if (most == nullptr || program.exit_code != 0 || run.capacity_bytes <= 0) return;
  const auto shared = std::ranges::max_element(program.shared, {}, &SharedGpu::bytes);
  if (shared != program.shared.end() && shared->bytes > run.capacity_bytes) {
    out.push_back(fmt::format("whether it fits {} is not known: {}", run.profile,
                              shared_text(*shared, run.capacity_bytes)));
    return;
  }
  std::string line = fmt::format("fits {}: at most {} are {}{} of the {} that PyTorch can have",
                                 run.profile, bytes_text(most->all()), taken_word(*most),
                                 on_place(program, *where, *most), bytes_text(run.capacity_bytes));
  line += limit_text(most->limit);
  if (retries > 0) line += ", after " + plural(retries, "retry", "retries");
  out.push_back(line);
}

/// Memory that the driver gave programs and PyTorch's allocator does not know: of symmetric memory,
/// of NVSHMEM, of an extension.
void add_outside(std::vector<std::string>& out, const ProgramRecord& program) {
  const DeviceRecord* most = nullptr;
  const ProcessRecord* where = nullptr;
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) {
      if (most == nullptr || device.outside > most->outside) most = &device, where = &process;
      if (device.refused > 0 && program.exit_code != 0)
        out.push_back(fmt::format(
            "the device refused {}{} outside PyTorch's allocator: {} were free, beside {} reserved "
            "and {} outside the allocator",
            bytes_text(device.refused), on_place(program, process, device),
            bytes_text(device.refused_left), bytes_text(device.reserved),
            bytes_text(device.outside)));
    }
  if (most == nullptr || most->outside == 0) return;
  out.push_back(fmt::format("{}{}: at most {} are taken of the device there, beside {} reserved",
                            outside_text(*most), on_place(program, *where, *most),
                            bytes_text(most->all()), bytes_text(most->reserved)));
}

}  // namespace

std::string shared_text(const SharedGpu& gpu, Bytes capacity) {
  const std::size_t others = gpu.places.size() - 1;
  return fmt::format(
      "{} and {} use GPU {} at the same time, and their peaks together are {}, {} more than the {} "
      "that PyTorch can have; here each has a whole GPU",
      gpu.places.front(), others == 1 ? gpu.places.back() : fmt::format("{} others", others),
      gpu.gpu, bytes_text(gpu.bytes), bytes_text(gpu.bytes - capacity), bytes_text(capacity));
}

std::vector<std::string> outcome_of(const TrialRecord& trial, const HighestPeak& peak,
                                    const RunRecord& run) {
  std::vector<std::string> out;
  add_failures(out, trial, peak, run);
  const bool full = !out.empty();
  if (full) add_others(out, *trial.program);
  std::ranges::move(growth_texts(peak.growths, full ? 0 : run.capacity_bytes),
                    std::back_inserter(out));
  add_fit(out, *trial.program, run);
  add_outside(out, *trial.program);
  return out;
}

bool calls_nccl(const ProgramRecord& program) {
  return std::ranges::any_of(
      program.processes, [](const ProcessRecord& process) { return !process.collectives.empty(); });
}

void settle_capacity(Report& report) {
  const bool called = std::ranges::any_of(report.trials, [](const TrialRecord& trial) {
    return trial.program && calls_nccl(*trial.program);
  });
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
