#include "reports/program/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

std::size_t devices_in(const ProgramRecord& program) {
  std::size_t out = 0;
  for (const ProcessRecord& process : program.processes) out += process.devices.size();
  return out;
}

/// ", in backward of step 2", of the moment of the highest peak.
std::string peak_moment(const HighestPeak& peak) {
  const MemoryPicture* picture = peak_picture(peak);
  const std::string phase = picture == nullptr ? "" : phase_text(*picture, picture->peak);
  return phase.empty() ? "" : ", " + phase;
}

/// "3 GiB of activations, 2 GiB of gradients": the kinds with most of the peak.
std::string largest_kinds(const AliveAtPeak& alive) {
  constexpr std::size_t kNamed = 2;
  std::vector<TensorKind> kinds = kinds_of(alive.parts);
  std::ranges::stable_sort(kinds, std::greater(), &TensorKind::bytes);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(kNamed, kinds.size()); ++i)
    out.push_back(fmt::format("{} of {}", bytes_text(kinds[i].bytes), name_of(kinds[i].kind)));
  return out.empty() ? "" : fmt::format(": {}", fmt::join(out, ", "));
}

/// "peak of 6.4 GiB on rank 3, in backward of step 2: ..."; "" where nothing was recorded.
std::string peak_text(const TrialRecord& trial, const HighestPeak& peak) {
  const ProgramRecord& program = *trial.program;
  const bool ranked = std::ranges::any_of(
      program.processes, [](const ProcessRecord& one) { return one.rank.has_value(); });
  const bool several = devices_in(program) > 1 || ranked;
  if (trial.alive && trial.alive->active > 0) {
    const std::size_t device = peak.file.empty() ? 0 : peak.device.device;
    return fmt::format("peak of {}{}{}{}", bytes_text(trial.alive->active),
                       several ? " on " + place_name(trial.alive->where, device) : "",
                       peak_moment(peak), largest_kinds(*trial.alive));
  }
  const DeviceRecord* most = nullptr;
  std::string where;
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices)
      if (most == nullptr || device.active > most->active)
        most = &device, where = on_place(program, process, device);
  return most == nullptr ? "" : fmt::format("peak of {}{}", bytes_text(most->active), where);
}

/// What is lacking: by the run with room, else by the allocation that failed, else by the peak.
std::string lack(const ProgramRecord& program, const DeviceRecord& device, const OutOfMemory* oom,
                 const RunRecord& run) {
  const Bytes most = most_of(device, run);
  const std::string can = most_text(device, run);
  if (const auto& needs = program.needs; needs && needs->reserved > most)
    return fmt::format("it needs {}{} more than {}", needs->until.empty() ? "" : "at least ",
                       bytes_text(needs->reserved - most), can);
  if (oom != nullptr)
    return fmt::format("{} wanted {}, and {} of {} were free", one_line(oom->site),
                       bytes_text(oom->wanted), bytes_text(room_of(*oom)), can);
  return fmt::format("at most {} were {} of {}", bytes_text(device.all()), taken_word(device), can);
}

}  // namespace

Bytes most_of(const DeviceRecord& device, const RunRecord& run) {
  return device.limit > 0 ? std::min(device.limit, run.capacity_bytes) : run.capacity_bytes;
}

std::string most_text(const DeviceRecord& device, const RunRecord& run) {
  const Bytes most = most_of(device, run);
  return most < run.capacity_bytes
             ? fmt::format("the {} that the process may have (its memory fraction)",
                           bytes_text(most))
             : fmt::format("the {} that PyTorch can have on {}", bytes_text(most), run.profile);
}

bool knows_need(const ProgramRecord& program, const RunRecord& run) {
  if (!program.needs) return false;
  return std::ranges::any_of(program.processes, [&](const ProcessRecord& process) {
    return std::ranges::any_of(process.devices, [&](const DeviceRecord& device) {
      return device.ooms > 0 && program.needs->reserved > most_of(device, run);
    });
  });
}

std::string taken_word(const DeviceRecord& device) {
  return device.all() > device.reserved ? "taken" : "reserved";
}

std::string outside_text(const DeviceRecord& device) {
  return device.outside == 0
             ? ""
             : fmt::format("{} outside PyTorch's allocator", bytes_text(device.outside));
}

std::string script_of(const std::vector<std::string>& words) {
  if (words.empty()) return "the program";
  const auto file = [](const std::string& word) {
    return one_line(std::filesystem::path(word).filename().string());
  };
  for (const std::string& word : words) {
    if (word == "-c") return file(words.front()) + " -c";
    if (word.ends_with(".py") || word.ends_with(".sh")) return file(word);
  }
  const auto module = std::ranges::find(words, "-m");
  return module != words.end() && module + 1 != words.end() ? one_line(module[1])
                                                            : file(words.front());
}

const MemoryPicture* peak_picture(const HighestPeak& peak) {
  const auto picture = std::ranges::find_if(peak.pictures, [&](const MemoryPicture& one) {
    return one.where == peak.file.stem() && one.device == peak.device.device;
  });
  return picture == peak.pictures.end() ? nullptr : &*picture;
}

std::string phase_text(const MemoryPicture& picture, std::size_t moment) {
  const auto* phase = phase_at(picture, moment);
  if (phase == nullptr) return "";
  return fmt::format("in {}{}", one_line(phase->name),
                     phase->step > 0 ? fmt::format(" of step {}", phase->step) : "");
}

/// If the refusal ended the phase, the phase ends at the last block before the refused one.
std::string moment_of(const OutOfMemory& oom, const HighestPeak& peak) {
  for (const MemoryPicture& picture : peak.pictures) {
    if (picture.where != oom.process || picture.events.empty()) continue;
    const auto moment = static_cast<std::size_t>(
        std::ranges::lower_bound(picture.events, static_cast<std::int64_t>(oom.event)) -
        picture.events.begin());
    std::size_t last = 0;  // the moment of the last block before it
    for (const MemoryPicture::Block& block : picture.blocks)
      for (const std::size_t one : {block.from, block.waits})
        if (one <= moment) last = std::max(last, one);
    for (const std::size_t one : {moment, last})
      if (const std::string phase = phase_text(picture, one); !phase.empty()) return " " + phase;
  }
  return "";
}

std::string on_place(const ProgramRecord& program, const ProcessRecord& process,
                     const DeviceRecord& device) {
  return devices_in(program) > 1 || process.rank ? " on " + place_of(process, device) : "";
}

const OutOfMemory* oom_of(const ProcessRecord& process, const DeviceRecord& device,
                          const HighestPeak& peak) {
  const auto oom = std::ranges::find_if(peak.ooms, [&](const OutOfMemory& one) {
    return place_name(one.process, 0) == name_of(process) &&
           std::cmp_equal(one.device, device.device);
  });
  return oom == peak.ooms.end() ? nullptr : &*oom;
}

Finding finding_of(const TrialRecord& trial, const HighestPeak& peak, const RunRecord& run) {
  const ProgramRecord& program = *trial.program;
  const std::string script = script_of(program.words);
  const std::string highest = peak_text(trial, peak);
  for (const ProcessRecord& process : program.processes)
    for (const DeviceRecord& device : process.devices) {
      if (device.ooms == 0) continue;
      const OutOfMemory* oom = oom_of(process, device, peak);
      return {FindingKind::out_of_memory,
              fmt::format(
                  "{}: {}{}{}{}: {}", script,
                  program.exit_code != 0 ? "out of memory" : "was out of memory",
                  oom == nullptr ? "" : moment_of(*oom, peak), on_place(program, process, device),
                  program.exit_code != 0 ? "" : " and went on", lack(program, device, oom, run))};
    }
  if (program.exit_code != 0)
    return {FindingKind::ended,
            fmt::format("{} ended with exit code {}{}", script, program.exit_code,
                        highest.empty() ? "" : ", after a " + highest)};
  if (const StepGrowth* growth = worst_growth(peak))
    return {FindingKind::grows,
            fmt::format(
                "{} grows by {}{}: {}", script, rate_text(*growth),
                devices_in(program) > 1 ? " on " + place_name(growth->where, growth->device) : "",
                holder_text(*growth))};
  if (highest.empty())
    return {FindingKind::nothing, script + ": no process has recorded CUDA memory"};
  return {FindingKind::peak, script + ": " + highest};
}

Finding finding_in(const TrialRecord& trial, const RunRecord& run) {
  return trial.program->finding ? *trial.program->finding : finding_of(trial, {}, run);
}

}  // namespace tidemark
