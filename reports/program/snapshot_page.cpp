#include "reports/program/snapshot_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/memory/analysis.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/html.h"
#include "reports/program/sections.h"
#include "reports/renderings.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

/// What the devices have at the moment of the file, and at the peak.
Section holdings_section(const std::vector<DeviceSummary>& devices, const std::string& name) {
  Section out{"", {}, {}, {{"device", "moment", "allocated", "active", "reserved", "event"}}};
  const auto add = [&](const DeviceSummary& d, const char* when, const Holdings& h,
                       const std::string& event) {
    out.rows.push_back({place_name(name, d.device), when, figure_cell(h.allocated),
                        figure_cell(h.active), figure_cell(h.reserved), event});
  };
  for (const DeviceSummary& d : devices) {
    const std::string events = exact(static_cast<std::int64_t>(d.events));
    if (d.oom) out.text.push_back(oom_text(*d.oom) + ".");
    if (d.events > 0) add(d, "when the trace begins", d.begin, "0");
    if (d.events > 0)
      add(d, "at the highest active", d.peak, exact(static_cast<std::int64_t>(d.peak_event)));
    add(d, "when the file was written", d.end, events);
    if (d.events == 0)
      out.text.push_back(
          "The file has no trace: it says what is there at its moment, and not what was before. "
          "torch.cuda.memory._record_memory_history() records one.");
    else if (d.begin.active > 0)
      out.text.push_back(fmt::format(
          "The trace begins in the middle of the program: {} were there before its first event, "
          "and when they were allocated is not known.",
          bytes_text(d.begin.active)));
  }
  out.text.emplace_back(
      "allocated and active are as the program requested them; reserved is what the allocator has "
      "taken from the device.");
  if (devices.size() == 1)
    for (std::vector<std::string>& row : out.rows) row.erase(row.begin());
  return out;
}

/// Blocks that were alive at the peak, by place and size, with how long such blocks live.
Section sites_section(const DeviceSummary& device, std::size_t top) {
  Section out{"Alive at the peak, by line and size",
              {},
              {},
              {{"memory", "blocks", "size", "line", "lives"}}};
  for (const Site& one : device.sites)
    if (one.bytes > 0 && out.rows.size() <= top)
      out.rows.push_back({figure_cell(one.bytes), std::to_string(one.count), figure_cell(one.size),
                          one.site, lifetime(one)});
  return out;
}

Section pending_section(const DeviceSummary& device, std::size_t top) {
  Section out{
      fmt::format("Freed, and held for another stream at the end ({})", device.pending.size())};
  for (std::size_t i = 0; i < std::min(top, device.pending.size()); ++i)
    out.text.push_back(pending_line(device.pending[i]));
  return out;
}

/// Figures as a page rounds them.
std::string markdown_table(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const std::string& cell : rows[i])
      out += "| " + markdown_text(cell.substr(0, cell.find('\t'))) + " ";
    out += "|\n";
    if (i > 0) continue;
    for (std::size_t k = 0; k < rows[i].size(); ++k)
      out += rows.back()[k].find_first_of("0123456789") == 0 ? "|---:" : "|---";
    out += "|\n";
  }
  return out;
}

/// "dump" of "dump.pickle" and of "dump.json.gz".
std::string stem_of(const std::filesystem::path& file) {
  const std::filesystem::path stem = file.stem();
  return one_line((stem.extension() == ".json" ? stem.stem() : stem).string());
}

std::string headline_of(const std::vector<DeviceSummary>& devices, const std::string& name) {
  const auto highest = std::ranges::max_element(
      devices, {}, [](const DeviceSummary& one) { return one.peak.active; });
  if (highest == devices.end()) return name + ": a snapshot without memory";
  std::string out = highest->ooms > 0 ? name + ": out of memory; peak of " : name + ": peak of ";
  out += bytes_text(highest->peak.active) + " active";
  if (devices.size() > 1) out += fmt::format(" on cuda:{}", highest->device);
  return out + fmt::format(", {} reserved", bytes_text(highest->peak.reserved));
}

}  // namespace

std::string snapshot_page(Snapshot snapshot, const std::filesystem::path& file, std::size_t top,
                          const std::filesystem::path& page) {
  const std::string name = one_line(file.filename().string());
  std::vector<HighestPeak> peaks(1);
  peaks[0].file = file;
  std::vector<DeviceSummary> devices = analyse(snapshot);
  bool whole = true;
  for (DeviceSummary& device : devices) {
    MemoryPicture picture = picture_of(snapshot, device);
    std::vector<Holdings>().swap(device.curve);  // the picture has it
    const bool any = device.peak.active > 0;
    whole = whole && (!any || !picture.events.empty());
    if (picture.events.empty()) continue;
    picture.where = stem_of(file);
    peaks[0].pictures.push_back(thinned(std::move(picture), PictureBudget().moments));
  }
  Document out{"",
               headline_of(devices, name),
               std::ranges::any_of(devices, [](const DeviceSummary& d) { return d.ooms > 0; })
                   ? Status::fail
                   : Status::pass,
               {}};
  out.facts = {fmt::format("{}, {}", plural(std::ssize(snapshot.segments), "segment"),
                           plural(std::ssize(devices), "device")),
               "tidemark snapshot show " + shell_word(name)};
  out.sections.push_back(holdings_section(devices, stem_of(file)));
  out.markdown = fmt::format("# {}\n\n{}", markdown_text(out.headline),
                             markdown_table(out.sections.front().rows));
  std::vector<std::string>& text = out.sections.front().text;
  if (!snapshot.failure.empty())
    text.push_back("The history ends early: " + snapshot.failure + ".");
  snapshot = {};  // its memory is that of the page's data
  if (!whole)
    text.emplace_back(
        "The trace contradicts the blocks of the file, so that there is no picture of it.");
  if (auto memory = memory_section(peaks, {.page = page}))
    out.sections.push_back(*std::move(memory));
  for (const DeviceSummary& device : devices) {
    std::vector<Section> sections{sites_section(device, top)};
    if (!device.pending.empty()) sections.push_back(pending_section(device, top));
    for (Section& section : sections_of(device)) sections.push_back(std::move(section));
    sections.back().title = "Free memory when the file was written";
    for (Section& section : sections) {
      if (devices.size() > 1) section.title += fmt::format(", cuda:{}", device.device);
      out.sections.push_back(std::move(section));
    }
  }
  return html(out);
}

}  // namespace tidemark
