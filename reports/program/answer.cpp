#include "reports/program/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/program/finding.h"
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
  const MemoryPicture* picture = peak_picture(peak);
  if (picture == nullptr) return "";
  std::string out = phase_text(*picture, picture->peak);
  if (!out.empty()) out = ", " + out;
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

bool needs_of(const Report& report, const std::string& schedule) {
  return std::ranges::any_of(report.trials, [&](const TrialRecord& trial) {
    return trial.schedule == schedule && knows_need(*trial.program, report.run);
  });
}

std::string fit(const Report& report) {
  Bytes taken = 0;
  const DeviceRecord* most = nullptr;
  std::string where;
  bool full = false, whole = true;
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes) {
      whole = whole && process.ended && !process.devices.empty();
      for (const DeviceRecord& device : process.devices) {
        full = full || device.ooms > 0;
        if (device.all() <= taken) continue;
        taken = device.all(), where = place_of(process, device), most = &device;
      }
    }
  const Bytes capacity = report.run.capacity_bytes;
  if (most == nullptr || capacity <= 0) return "";
  const std::string outside = outside_text(*most);
  std::string out = outside.empty()
                        ? fmt::format("PyTorch's allocator reserves {} at most ({}), of {}",
                                      bytes_text(taken), where, gpu(report.run))
                        : fmt::format("At most {} of the GPU are taken ({}), with {}, of {}",
                                      bytes_text(taken), where, outside, gpu(report.run));
  out += limit_text(most->limit);
  if (full)
    return out +
           ": this was not enough. tidemark advise tries what would help, each change by a run, "
           "and "
           "tidemark fit finds the largest batch.";
  if (!whole) return out + "; a process has ended early, so what it needs in all is not known.";
  const Bytes left = most_of(*most, report.run) - taken;
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
                                  place_name(oom.process, oom.device, oom.several),
                                  oom_text(oom, !needs_of(report, peak.schedule))));
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
  if (highest != nullptr && highest->device.peak.active > 0)
    out.emplace_back(
        "All figures of this page that name no other statistic are active memory, as the program "
        "requested it: what tensors hold, and what is freed and still held for another stream.");
  return out;
}

}  // namespace tidemark
