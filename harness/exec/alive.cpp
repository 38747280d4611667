#include "harness/exec/alive.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reports/snapshot/analysis.h"
#include "reports/units.h"

namespace tidemark {

std::string alive_at_peak(const std::filesystem::path& folder) {
  constexpr std::size_t kLines = 3;  // of a kind
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".pickle") files.push_back(entry.path());
  std::ranges::sort(files);
  std::string text;
  std::filesystem::path of;
  DeviceSummary highest;
  for (const auto& file : files) {
    try {
      for (DeviceSummary& device : analyse(read_snapshot(file)))
        if (of.empty() || device.peak.active > highest.peak.active)
          highest = std::move(device), of = file;
    } catch (const SnapshotError& error) {
      text += fmt::format("tidemark: --snapshots: {}\n", error.what());
    }
  }
  if (of.empty())
    return text + "tidemark: --snapshots: no process of the program has ended with a snapshot\n";
  text += fmt::format("alive at the highest peak of active memory, {} bytes as requested, of {}:\n",
                      exact(static_cast<double>(highest.peak.active)), of.stem().string());
  return text + parts_text(highest, kLines) +
         fmt::format("all of it: tidemark snapshot show {}\n", of.string());
}

}  // namespace tidemark
