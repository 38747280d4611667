#include "reports/program/alive.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/units.h"

namespace tidemark {

namespace fs = std::filesystem;

fs::path snapshots_of(const fs::path& report, const std::string& schedule) {
  const fs::path below = report / schedule;
  return fs::is_directory(below) ? below : report;
}

HighestPeak highest_peak(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".pickle") files.push_back(entry.path());
  std::ranges::sort(files);
  constexpr std::size_t kMoments = 1 << 18;  // kept of a picture
  HighestPeak out;
  out.folder = folder;
  for (const auto& file : files) {
    try {
      const Snapshot snapshot = read_snapshot(file);
      for (DeviceSummary& device : analyse(snapshot)) {
        MemoryPicture picture = picture_of(snapshot, device);
        if (!picture.events.empty()) {
          picture.where = file.stem();
          if (auto growth = growth_of(picture)) out.growths.push_back(std::move(*growth));
          out.pictures.push_back(thinned(std::move(picture), kMoments));
        }
        if (out.file.empty() || device.peak.active > out.device.peak.active)
          out.device = std::move(device), out.file = file;
      }
    } catch (const SnapshotError& error) {
      out.unreadable.emplace_back(error.what());
    }
  }
  return out;
}

const HighestPeak* highest_of(const std::vector<HighestPeak>& peaks) {
  const HighestPeak* out = nullptr;
  for (const HighestPeak& peak : peaks)
    if (!peak.file.empty() && (out == nullptr || peak.device.peak.active > out->device.peak.active))
      out = &peak;
  return out;
}

std::optional<AliveAtPeak> alive_at(const HighestPeak& peak) {
  if (peak.file.empty()) return {};
  const Holdings& holdings = peak.device.peak;
  return AliveAtPeak{peak.file.stem().string(), holdings.active, holdings.reserved,
                     peak.device.parts};
}

const StepGrowth* worst_growth(const std::vector<HighestPeak>& peaks) {
  const StepGrowth* out = nullptr;
  for (const HighestPeak& peak : peaks)
    for (const StepGrowth& one : peak.growths)
      if (out == nullptr || one.most > out->most) out = &one;
  return out;
}

std::string alive_text(const std::vector<HighestPeak>& peaks, Bytes capacity) {
  constexpr std::size_t kLines = 3;  // of a kind
  std::string text;
  for (const HighestPeak& one : peaks)
    for (const std::string& line : one.unreadable) text += "tidemark: --report: " + line + "\n";
  const HighestPeak* highest = highest_of(peaks);
  if (highest == nullptr)
    return text + "tidemark: --report: no process of the program has ended with a snapshot\n";
  const HighestPeak& peak = *highest;
  if (const std::string oom = oom_text(peak.device); !oom.empty()) text += oom + "\n";
  text += fmt::format("alive at the highest peak of active memory, {} bytes as requested, of {}:\n",
                      exact(peak.device.peak.active), peak.file.stem().string());
  text += parts_text(peak.device, kLines);
  if (!peak.device.wastes.empty())
    text += "held without need, bytes as requested:\n" + wastes_text(peak.device, kLines);
  if (const StepGrowth* growth = worst_growth(peaks))
    text += "grows: " + growth_text(*growth, peak.device.ooms > 0 ? 0 : capacity) + "\n";
  return text + fmt::format("all parts: tidemark snapshot show {}\n", peak.file.string());
}

}  // namespace tidemark
