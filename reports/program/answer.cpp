#include "reports/program/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

std::string gpu(const RunRecord& run) {
  const bool other = run.profile_bytes > 0 && run.profile_bytes != run.capacity_bytes;
  return fmt::format("{} that it can have on the virtual GPU {}", bytes_text(run.capacity_bytes),
                     run.profile + (other ? ", which has another capacity by itself" : ""));
}

/// ", in backward of step 2, when ... allocated 512 MiB".
std::string moment(const HighestPeak& peak) {
  const auto picture = std::ranges::find_if(peak.pictures, [&](const MemoryPicture& one) {
    return one.where == peak.file.stem() && one.device == peak.device.device;
  });
  if (picture == peak.pictures.end()) return "";
  std::string out;
  if (const auto* phase = phase_at(*picture, picture->peak))
    out = fmt::format(", in {} of step {}", one_line(phase->name), phase->step);
  const auto last = std::ranges::find_if(picture->blocks, [&](const MemoryPicture::Block& block) {
    return block.from == picture->peak;
  });
  if (last == picture->blocks.end()) return out;
  const MemoryPicture::Place& place = picture->places[last->place];
  out += fmt::format(
      ", when {}{} allocated {}", place.site.empty() ? name_of(place.kind) : place.site,
      place.module.empty() ? "" : ", module " + place.module + ",", bytes_text(last->bytes));
  return out;
}

std::string made_of(const DeviceSummary& device) {
  std::vector<std::string> kinds;
  for (const TensorKind& kind : kinds_of(device.parts))
    kinds.push_back(fmt::format(
        "{} {} ({:.1f} %)", name_of(kind.kind), bytes_text(kind.bytes),
        100 * static_cast<double>(kind.bytes) / static_cast<double>(device.peak.active)));
  return fmt::format("It is made of {}.", fmt::join(kinds, ", "));
}

// Beside what PyTorch's allocator can have: CUDA's context and NCCL, or --reserve.
std::string reserve(const RunRecord& run) {
  return run.context_bytes > 0 ? fmt::format(" Beside it {} are set aside for CUDA's context.",
                                             bytes_text(run.context_bytes))
                               : "";
}

std::string fit(const Report& report) {
  Bytes reserved = 0;
  std::string where;
  bool full = false, whole = true;
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes) {
      whole = whole && process.ended && !process.devices.empty();
      for (const DeviceRecord& device : process.devices) {
        full = full || device.ooms > 0;
        if (device.reserved <= reserved) continue;
        reserved = device.reserved, where = place_of(process, device);
      }
    }
  const Bytes capacity = report.run.capacity_bytes;
  if (reserved == 0 || capacity <= 0) return "";
  std::string out = fmt::format("PyTorch's allocator reserves {} at most ({}), of {}",
                                bytes_text(reserved), where, gpu(report.run));
  if (full)
    return out +
           ": this was not enough. tidemark advise tries what would help, each change by a run, "
           "and "
           "tidemark fit finds the largest batch.";
  if (!whole) return out + "; a process has ended early, so what it needs in all is not known.";
  const Bytes left = capacity - reserved;
  return fmt::format("{}: {} are left.{}", out, bytes_text(left), reserve(report.run));
}

}  // namespace

std::vector<std::string> answer(const Report& report, const std::vector<HighestPeak>& peaks) {
  std::vector<std::string> out;
  for (const HighestPeak& peak : peaks)
    for (const std::string& line : peak.unreadable) out.push_back(line + ".");
  const HighestPeak* highest = highest_of(peaks);
  if (highest == nullptr) {
    out.push_back("What was alive is not known: no process of the program left a memory snapshot.");
  } else {
    const DeviceSummary& device = highest->device;
    for (const HighestPeak& peak : peaks)
      for (const OutOfMemory& oom : peak.ooms)
        out.push_back(fmt::format("{}{}: {}.", peaks.size() > 1 ? peak.schedule + ", " : "",
                                  oom.process, oom_text(oom)));
    if (device.peak.active > 0) {
      const std::string schedule = peaks.size() > 1 ? " under " + highest->schedule : "";
      out.push_back(
          fmt::format("The peak is {} of active memory on {}{}{}.", bytes_text(device.peak.active),
                      place_name(highest->file.stem(), device.device), schedule, moment(*highest)));
      out.push_back(made_of(device));
    } else {
      out.push_back("The program's allocations failed: nothing was alive.");
    }
  }
  if (const StepGrowth* growth = worst_growth(peaks)) {
    const bool full = highest != nullptr && highest->device.ooms > 0;
    out.push_back("Memory grows: " + growth_text(*growth, full ? 0 : report.run.capacity_bytes) +
                  ".");
  }
  if (const std::string fits = fit(report); !fits.empty()) out.push_back(fits);
  out.push_back(fmt::format("Command: {}", fmt::join(report.trials.front().program->words, " ")));
  return out;
}

}  // namespace tidemark
