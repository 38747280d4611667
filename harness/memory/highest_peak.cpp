#include "harness/memory/highest_peak.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "harness/memory/beyond.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// The records and snapshots of a folder, rank 2 before rank 10; what was a record is not read a
/// second time as a snapshot.
std::vector<fs::path> histories_in(const fs::path& folder) {
  std::set<fs::path> out;
  for (const char* extension : {".record", ".pickle"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == extension &&
          !out.contains(fs::path(entry.path()).replace_extension(".record")))
        out.insert(entry.path());
  std::vector<fs::path> sorted(out.begin(), out.end());
  std::ranges::stable_sort(sorted, {}, [](const fs::path& one) { return one.native().size(); });
  return sorted;
}

using Wastes = std::vector<std::vector<Waste>>;  // by kind, of each moment

/// The most of each kind and moment, of all processes.
void keep_most(Wastes& all, const DeviceSummary& of, const std::string& process, bool several) {
  all.resize(std::max(all.size(), of.wastes.size()));
  for (std::size_t kind = 0; kind < of.wastes.size(); ++kind) {
    const Waste& one = of.wastes[kind];
    const auto same = std::ranges::find(all[kind], one.name, &Waste::name);
    if (same != all[kind].end() && same->bytes.value_or(-1) >= one.bytes.value_or(-1)) continue;
    Waste& kept = same == all[kind].end() ? all[kind].emplace_back() : *same;
    kept = one;
    kept.process = process, kept.device = of.device, kept.several = several;
  }
}

/// A kind is unknown where no device knows it: a device without a backward is none that others
/// could learn from.
std::vector<Waste> known_of(const Wastes& all) {
  std::vector<Waste> out;
  for (const std::vector<Waste>& kind : all) {
    const bool is_known =
        std::ranges::any_of(kind, [](const Waste& one) { return one.bytes.has_value(); });
    std::ranges::copy_if(kind, std::back_inserter(out),
                         [&](const Waste& one) { return one.bytes || !is_known; });
  }
  return out;
}

/// The record of the run with room that belongs to a process: of its name, or the only one.
fs::path room_of(const fs::path& file) {
  const fs::path folder = file.parent_path() / kRoomFolder;
  std::error_code none;
  if (!fs::is_directory(folder, none)) return {};
  const std::vector<fs::path> all = histories_in(folder);
  for (const fs::path& one : all)
    if (one.stem() == file.stem()) return one;
  return all.size() == 1 && histories_in(file.parent_path()).size() == 1 ? all.front() : fs::path();
}

/// Of a device that ran out of memory: the picture of the run with room.
void add_room(HighestPeak& out, const fs::path& file, const Snapshot& full,
              const DeviceSummary& device) {
  const fs::path beside = room_of(file);
  if (beside.empty()) return;
  const Snapshot room = read_snapshot(beside);
  for (const DeviceSummary& one : analyse(room)) {
    if (one.device != device.device) continue;
    auto picture = beyond(full, device, room, picture_of(room, one));
    if (!picture) continue;
    picture->where = file.stem();
    out.room.push_back(std::move(*picture));
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
  Wastes by_kind;
  for (const fs::path& file : histories_in(folder)) {
    try {
      const Snapshot snapshot = read_snapshot(file);
      if (!snapshot.failure.empty())
        out.unreadable.push_back(file.stem().string() +
                                 ": its history ends early: " + snapshot.failure);
      std::vector<DeviceSummary> devices = analyse(snapshot);
      const bool several = devices.size() > 1;
      for (DeviceSummary& device : devices) {
        keep_most(by_kind, device, file.stem().string(), several);
        if (device.oom) {
          device.oom->process = file.stem().string();
          device.oom->device = device.device, device.oom->several = several;
          out.ooms.push_back(*device.oom);
          add_room(out, file, snapshot, device);
        }
        out.left.push_back(
            {file.stem().string(), device.device, several, device.end.allocated, device.left});
        MemoryPicture picture = picture_of(snapshot, device);
        if (!picture.events.empty()) {
          picture.where = file.stem();
          if (auto growth = growth_of(picture)) out.growths.push_back(std::move(*growth));
          out.pictures.push_back(thinned(std::move(picture), kMoments));
        }
        if (out.file.empty() || device.peak.active > out.device.peak.active)
          out.device = std::move(device), out.file = file, out.several = several;
      }
    } catch (const SnapshotError& error) {
      out.unreadable.emplace_back(error.what());
    }
  }
  std::vector<Waste> wastes = known_of(by_kind);
  for (Waste& one : wastes)
    if (one.process == out.file.stem() && one.device == out.device.device) one.process.clear();
  out.device.wastes = std::move(wastes);
  return out;
}

std::optional<MemoryPicture> picture_of_peak(const fs::path& report, const std::string& schedule,
                                             const std::string& where) {
  if (where.find('/') != std::string::npos) return {};
  for (const char* extension : {".record", ".pickle"}) {
    const fs::path file = snapshots_of(report, schedule) / (where + extension);
    if (!fs::is_regular_file(file)) continue;
    try {
      const Snapshot snapshot = read_snapshot(file);
      const std::vector<DeviceSummary> devices = analyse(snapshot);
      const auto highest = std::ranges::max_element(
          devices, {}, [](const DeviceSummary& one) { return one.peak.active; });
      if (highest == devices.end()) return {};
      MemoryPicture out = picture_of(snapshot, *highest);
      out.where = where;
      if (!out.events.empty()) return out;
    } catch (const SnapshotError&) {
      return {};  // the comparison has the figures without it
    }
  }
  return {};
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

const StepGrowth* worst_growth(const HighestPeak& peak) {
  const StepGrowth* out = nullptr;
  for (const StepGrowth& one : peak.growths)
    if (out == nullptr || one.rate() > out->rate()) out = &one;
  return out;
}

const StepGrowth* worst_growth(const std::vector<HighestPeak>& peaks) {
  const StepGrowth* out = nullptr;
  for (const HighestPeak& peak : peaks)
    if (const StepGrowth* one = worst_growth(peak);
        one != nullptr && (out == nullptr || one->rate() > out->rate()))
      out = one;
  return out;
}

}  // namespace tidemark
