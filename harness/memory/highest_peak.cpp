#include "harness/memory/highest_peak.h"

#include <algorithm>
#include <map>
#include <set>

#include "harness/record/one_line.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// The records and snapshots of a folder; what was a record is not read a second time as a
/// snapshot.
std::vector<fs::path> histories_in(const fs::path& folder) {
  std::set<fs::path> out;
  for (const char* extension : {".record", ".pickle"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == extension &&
          !out.contains(fs::path(entry.path()).replace_extension(".record")))
        out.insert(entry.path());
  return {out.begin(), out.end()};
}

/// The most of each kind, of all processes.
void keep_most(std::vector<Waste>& all, const std::vector<Waste>& of, const std::string& process) {
  for (const Waste& one : of) {
    const auto same = std::ranges::find(all, one.name, &Waste::name);
    if (same != all.end() && same->bytes.value_or(-1) >= one.bytes.value_or(-1)) continue;
    Waste& kept = same == all.end() ? all.emplace_back() : *same;
    kept = one;
    kept.process = process;
  }
}

}  // namespace

fs::path snapshots_of(const fs::path& report, const std::string& schedule) {
  const fs::path below = report / schedule;
  return fs::is_directory(below) ? below : report;
}

HighestPeak highest_peak(const fs::path& report, const std::string& schedule) {
  const fs::path folder = snapshots_of(report, schedule);
  if (!fs::is_directory(folder)) return {};
  constexpr std::size_t kMoments = 1 << 18;  // kept of a picture
  HighestPeak out{.schedule = schedule, .folder = folder};
  std::vector<Waste> wastes;
  for (const fs::path& file : histories_in(folder)) {
    try {
      const Snapshot snapshot = read_snapshot(file);
      std::map<std::pair<std::string, std::int64_t>, std::string> sources;
      for (const SourceLine& one : snapshot.sources) sources[{one.file, one.line}] = one.text;
      if (!snapshot.failure.empty())
        out.unreadable.push_back(file.stem().string() +
                                 ": its history ends early: " + snapshot.failure);
      for (DeviceSummary& device : analyse(snapshot)) {
        keep_most(wastes, device.wastes, file.stem().string());
        if (device.oom) {
          device.oom->process = file.stem().string();
          out.ooms.push_back(*device.oom);
        }
        out.left.push_back({file.stem().string(), device.end.allocated, device.left});
        MemoryPicture picture = picture_of(snapshot, device);
        if (!picture.events.empty()) {
          picture.where = file.stem();
          for (MemoryPicture::Place& place : picture.places)
            if (const auto known = sources.find({place.file, place.line}); known != sources.end())
              place.source = known->second;
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
  for (Waste& one : wastes)
    if (one.process == out.file.stem()) one.process.clear();
  out.device.wastes = std::move(wastes);
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
  AliveAtPeak out{peak.file.stem().string(), holdings.active, holdings.reserved, peak.device.parts};
  std::map<std::string, std::set<std::string>> sources;  // files of one name may have other lines
  for (const MemoryPicture& picture : peak.pictures)
    for (const MemoryPicture::Place& place : picture.places)
      if (place.source) sources[place.site].insert(*place.source);
  for (Part& part : out.parts)
    if (const auto known = sources.find(part.site);
        known != sources.end() && known->second.size() == 1)
      part.source = one_line(*known->second.begin());
  return out;
}

const StepGrowth* worst_growth(const std::vector<HighestPeak>& peaks) {
  const StepGrowth* out = nullptr;
  for (const HighestPeak& peak : peaks)
    for (const StepGrowth& one : peak.growths)
      if (out == nullptr || one.rate() > out->rate()) out = &one;
  return out;
}

}  // namespace tidemark
