#include "reports/program/alive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/memory/parts.h"
#include "harness/record/one_line.h"
#include "harness/record/units.h"
#include "reports/snapshot/render.h"

namespace tidemark {

namespace fs = std::filesystem;

namespace {

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

std::string oom_lines(const HighestPeak& peak, bool with_schedule, std::size_t top) {
  if (peak.ooms.empty()) return "";
  const OutOfMemory& oom = peak.ooms.front();
  std::string text = (with_schedule ? "schedule " + peak.schedule + ", " : "") + oom.process +
                     ": " + oom_text(oom) + "\n";
  if (peak.ooms.size() > 1)
    text +=
        fmt::format("and out of memory on {}\n", plural(std::ssize(peak.ooms) - 1, "more device"));
  if (oom.at_peak || oom.parts.empty()) return text;
  return text + "alive at that moment, bytes as requested:\n" + parts_text(oom.parts, top);
}

// Wastes that have no bytes.
std::string nothing_text(const std::vector<Waste>& wastes) {
  const bool known =
      std::ranges::all_of(wastes, [](const Waste& one) { return one.bytes.has_value(); });
  return known ? "nothing was found" : "not known, no backward has run";
}

// Text about the device that has most left, by kind, and the bytes alone of the others.
std::string left_text(const std::vector<LeftAtEnd>& left) {
  constexpr std::ptrdiff_t kNamed = 8;
  if (left.empty()) return "";
  const auto [least, most] = std::ranges::minmax_element(left, {}, &LeftAtEnd::bytes);
  std::string text = "alive at the program's end, bytes as requested: ";
  if (most->bytes == 0) return text + "nothing\n";
  std::vector<std::string> kinds, others;
  for (const TensorKind& kind : kinds_of(most->parts))
    kinds.push_back(fmt::format("{} {}", name_of(kind.kind), exact(kind.bytes)));
  text += fmt::format("{} of {} ({})", exact(most->bytes), most->process, fmt::join(kinds, ", "));
  for (const LeftAtEnd& one : left)
    if (&one != &*most) others.push_back(exact(one.bytes) + " of " + one.process);
  if (std::ssize(others) > kNamed)
    others = {fmt::format("{} of {}, which has least", exact(least->bytes), least->process)};
  return text + (others.empty() ? "" : fmt::format("; {}", fmt::join(others, ", "))) + "\n";
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

std::string alive_text(const std::vector<HighestPeak>& peaks, Bytes capacity) {
  constexpr std::size_t kLines = 3;  // of a kind
  std::string text;
  for (const HighestPeak& one : peaks)
    for (const std::string& line : one.unreadable) text += "tidemark: --report: " + line + "\n";
  const HighestPeak* highest = highest_of(peaks);
  if (highest == nullptr)
    return text + "tidemark: --report: no process of the program has ended with a snapshot\n";
  const HighestPeak& peak = *highest;
  for (const HighestPeak& one : peaks) text += oom_lines(one, peaks.size() > 1, kLines);
  if (peak.device.peak.active > 0)
    text +=
        fmt::format("alive at the highest peak of active memory, {} bytes as requested, of {}:\n",
                    exact(peak.device.peak.active), peak.file.stem().string());
  text += parts_text(peak.device.parts, kLines);
  if (std::ranges::any_of(peak.device.wastes, [](const Waste& one) { return one.bytes > 0; }))
    text += "held without need, bytes as requested:\n" + wastes_text(peak.device, kLines);
  else if (!peak.device.wastes.empty())
    text += fmt::format("held without need: {}\n", nothing_text(peak.device.wastes));
  text += left_text(peak.left);
  if (const StepGrowth* growth = worst_growth(peaks))
    text += "grows: " + growth_text(*growth, peak.device.ooms > 0 ? 0 : capacity) + "\n";
  return text +
         fmt::format("all parts: tidemark snapshot show --top 1000 {}\n", shell_word(peak.file));
}

}  // namespace tidemark
