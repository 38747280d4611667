#include "reports/program/snapshot_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/memory/analysis.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/html.h"
#include "reports/program/sections.h"
#include "reports/renderings.h"
#include "reports/snapshot/render.h"
#include "reports/table.h"

namespace tidemark {
namespace {

/// What the devices have at the moment of the file, and at the peak.
Section holdings_section(const std::vector<ExplainedDevice>& all) {
  Section out{"", {}, {}, {{"device", "moment", "allocated", "active", "reserved", "event"}}};
  const auto add = [&](const ExplainedDevice& one, const char* when, const Holdings& h,
                       const std::string& event) {
    out.rows.push_back({one.name, when, figure_cell(h.allocated), figure_cell(h.active),
                        figure_cell(h.reserved), event});
  };
  for (const ExplainedDevice& one : all) {
    const DeviceSummary& d = one.device;
    if (d.events > 0) add(one, "when the trace begins", d.begin, "0");
    if (d.events > 0)
      add(one, "at the highest active", d.peak, exact(static_cast<std::int64_t>(d.peak_event)));
    add(one, "when the file was written", d.end, exact(static_cast<std::int64_t>(d.events)));
  }
  out.text.emplace_back(
      "allocated and active are as the program requested them; reserved is what the allocator has "
      "taken from the device.");
  if (all.size() == 1)
    for (std::vector<std::string>& row : out.rows) row.erase(row.begin());
  return out;
}

std::string sentence(std::string line) {
  line[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(line[0])));
  return line.ends_with('.') ? line : line + ".";
}

/// The sentences with which the page begins.
Section answer_section(const std::vector<ExplainedDevice>& all) {
  Section out{""};
  for (const std::string& line : explanation(all)) out.text.push_back(sentence(line));
  for (const ExplainedDevice& one : all)
    if (one.device.oom) out.text.push_back(one.name + ": " + oom_text(*one.device.oom) + ".");
  out.rows = devices_table(all);
  return out;
}

Section changes_section(const ChangesTried& changes, const ExplainedDevice& of, bool several) {
  Section out{"What would have fitted" + (several ? ", of " + of.name : std::string())};
  if (const std::string why = common_refusal(changes); !why.empty()) {
    out.text.push_back(sentence("not known: " + why));
    return out;
  }
  out.rows = changes_table(changes, of);
  for (const std::string& line : assumptions(changes, of)) out.text.push_back(sentence(line));
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

/// Columns of figures are set to the right.
std::string markdown_of(const std::vector<std::vector<std::string>>& rows) {
  std::set<std::size_t> figures;
  for (std::size_t k = 0; k < rows.back().size(); ++k)
    if (rows.back()[k].find_first_of("0123456789") == 0) figures.insert(k);
  return markdown_table(rows, figures);
}

std::string headline_of(const std::vector<ExplainedDevice>& all) {
  const ExplainedDevice& first = *first_of(all);
  const std::string name = all.size() == 1
                               ? one_line(std::filesystem::path(first.file).filename().string())
                               : first.name;
  const DeviceSummary& d = first.device;
  if (d.peak.active == 0 && !d.oom) return name + ": a snapshot without memory";
  if (d.oom)
    return fmt::format("{}: out of memory{}{}: {} asked for, {} free", name,
                       first.phase.empty() ? "" : " ", first.phase, bytes_text(d.oom->wanted),
                       bytes_text(d.oom->device_free));
  return fmt::format("{}: peak of {} active, {} reserved", name, bytes_text(d.peak.active),
                     bytes_text(d.peak.reserved));
}

}  // namespace

std::string snapshot_page(std::vector<ExplainedDevice> all, const ChangesTried& changes,
                          std::size_t top, const std::filesystem::path& page) {
  const ExplainedDevice& first = *first_of(all);
  Document out{"", headline_of(all), first.device.oom ? Status::fail : Status::pass, {}};
  std::set<std::string> files;
  for (const ExplainedDevice& one : all)
    files.insert(shell_word(one_line(std::filesystem::path(one.file).filename().string())));
  out.facts = {
      fmt::format("{}, {}", plural(std::ssize(files), "file"), plural(std::ssize(all), "device")),
      fmt::format("tidemark explain {}", fmt::join(files, " "))};
  out.sections.push_back(answer_section(all));
  if (!changes.empty()) out.sections.push_back(changes_section(changes, first, all.size() > 1));
  out.markdown = fmt::format("# {}\n\n", markdown_text(out.headline));
  for (const std::string& line : out.sections.front().text)
    out.markdown += markdown_text(line) + "\n\n";
  if (!changes.empty() && !out.sections.back().rows.empty())
    out.markdown += markdown_of(out.sections.back().rows) + "\n";
  out.sections.push_back(holdings_section(all));
  out.markdown += markdown_of(out.sections.back().rows);
  std::vector<HighestPeak> peaks(1);
  peaks[0].file = all.front().file;
  for (ExplainedDevice& one : all) {
    if (!one.picture.events.empty())
      peaks[0].pictures.push_back(std::move(one.picture));
    else if (one.device.peak.active > 0)
      out.sections.back().text.push_back(
          one.name +
          ": the trace contradicts the blocks of the file, so that there is no picture "
          "of it.");
  }
  if (auto memory = memory_section(peaks, {.page = page}))
    out.sections.push_back(*std::move(memory));
  for (const ExplainedDevice& one : all) {
    const DeviceSummary& device = one.device;
    std::vector<Section> sections{sites_section(device, top)};
    if (!device.pending.empty()) sections.push_back(pending_section(device, top));
    for (Section& section : sections_of(device)) sections.push_back(std::move(section));
    sections.back().title = "Free memory when the file was written";
    for (Section& section : sections) {
      if (all.size() > 1) section.title += ", " + one.name;
      out.sections.push_back(std::move(section));
    }
  }
  return html(out);
}

std::string snapshot_page(Snapshot snapshot, const std::filesystem::path& file, std::size_t top,
                          const std::filesystem::path& page) {
  // The snapshot is let go of at the end of this statement.
  std::vector<ExplainedDevice> all = explain(std::move(snapshot), file.string(), {}, true);
  return snapshot_page(std::move(all), {}, top, page);
}

}  // namespace tidemark
