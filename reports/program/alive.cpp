#include "reports/program/alive.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/units.h"

namespace tidemark {

HighestPeak highest_peak(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return {};
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".pickle") files.push_back(entry.path());
  std::ranges::sort(files);
  HighestPeak out;
  for (const auto& file : files) {
    try {
      for (DeviceSummary& device : analyse(read_snapshot(file)))
        if (out.file.empty() || device.peak.active > out.device.peak.active)
          out.device = std::move(device), out.file = file;
    } catch (const SnapshotError& error) {
      out.unreadable.emplace_back(error.what());
    }
  }
  return out;
}

std::optional<AliveAtPeak> alive_at(const HighestPeak& peak) {
  if (peak.file.empty()) return {};
  const Holdings& holdings = peak.device.peak;
  return AliveAtPeak{peak.file.stem().string(), holdings.active, holdings.reserved,
                     peak.device.parts};
}

std::string alive_text(const HighestPeak& peak) {
  constexpr std::size_t kLines = 3;  // of a kind
  std::string text;
  for (const std::string& line : peak.unreadable) text += "tidemark: --report: " + line + "\n";
  if (peak.file.empty())
    return text + "tidemark: --report: no process of the program has ended with a snapshot\n";
  if (const std::string oom = oom_text(peak.device); !oom.empty()) text += oom + "\n";
  text +=
      fmt::format("alive at the highest peak of active memory, {} bytes as requested, of {}:\n",
                  exact(static_cast<double>(peak.device.peak.active)), peak.file.stem().string());
  text += parts_text(peak.device, kLines);
  if (!peak.device.wastes.empty())
    text += "held without need there, bytes as requested:\n" + wastes_text(peak.device, kLines);
  return text + fmt::format("all of it: tidemark snapshot show {}\n", peak.file.string());
}

}  // namespace tidemark
