#include "reports/program/sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/page_data.h"
#include "reports/program/text.h"
#include "reports/snapshot/render.h"
#include "reports/still.h"

namespace tidemark {
namespace {

constexpr std::ptrdiff_t kOutside = 5;  // the column, where there is one

std::vector<std::string> row_of(const EqualPeaks& one, const std::string& schedule, bool outside) {
  const auto& [who, count, process, device] = one;
  std::vector<std::string> row{who,
                               schedule,
                               figure_cell(device->allocated),
                               figure_cell(device->active),
                               figure_cell(device->reserved),
                               std::to_string(device->retries),
                               std::to_string(device->ooms),
                               std::to_string(process->races.size()),
                               process->ended ? "by itself" : "early"};
  if (outside) row.insert(row.begin() + kOutside, figure_cell(device->outside));
  return row;
}

/// "Allocated 4 KiB, reserved 2 MiB, of which 2.0 MiB are free in 1 fragment of segments in use."
std::string left_text(const Fragmentation& f) {
  if (f.reserved == 0) return "Nothing.";
  std::string out =
      fmt::format("Allocated {}, reserved {}", bytes_text(f.allocated), bytes_text(f.reserved));
  const char* between = ", of which ";
  if (f.fragments > 0) {
    out += fmt::format("{}{} are free in {} of segments in use", between,
                       bytes_text(f.free_in_used), plural(f.fragments, "fragment"));
    between = " and ";
  }
  if (f.free_segments > 0)
    out += fmt::format("{}{} are free segments", between, bytes_text(f.free_segments));
  return out + ".";
}

}  // namespace

std::optional<Section> memory_section(const std::vector<HighestPeak>& peaks,
                                      const PicturePlace& place) {
  const auto data = picture_data(peaks, place);
  if (data.is_null()) return {};
  return Section{.title = "Memory over time",
                 .memory = packed(data),
                 .still = still_page(*first_picture(peaks), place.capacity)};
}

Section peaks_section(const Report& report) {
  using Rows = std::vector<std::vector<std::string>>;
  Section out{.title = "Peaks by rank",
              .text = {"PyTorch's own statistics over the whole process, which count whole blocks: "
                       "requests are rounded up. reserved is what the allocator has taken from the "
                       "GPU."},
              .folded = true};
  for (const TrialRecord& trial : report.trials)
    for (const ProcessRecord& process : trial.program->processes)
      if (process.devices.empty())
        out.text.push_back(unrecorded(process) + ".");
      else if (!process.ended)
        out.text.push_back(fmt::format("{} ended early {}: its peaks are those until then.",
                                       name_of(process), process.last));
  Rows head{
      {"rank", "schedule", "allocated", "active", "reserved", "retries", "ooms", "races", "end"}};
  const bool outside = std::ranges::any_of(
      report.trials, [](const TrialRecord& trial) { return has_outside(*trial.program); });
  if (outside) {
    head[0].insert(head[0].begin() + kOutside, "outside");
    out.text[0] += " outside is what the process had of the GPU beside that.";
  }
  Rows first = head, all = head;
  for (const TrialRecord& trial : report.trials) {
    const std::vector<EqualPeaks> groups = equal_peaks(*trial.program);
    for (const EqualPeaks& one : groups) all.push_back(row_of(one, trial.schedule, outside));
    for (const EqualPeaks& one : highest_of(groups))
      first.push_back(row_of(one, trial.schedule, outside));
  }
  if (first.size() == all.size()) {
    out.rows = std::move(all);
    return out;
  }
  out.markup = fmt::format(
      "<p>The {} rows with the highest peaks of active memory{}:</p>{}<details><summary>All {} "
      "rows, by rank</summary>{}</details>",
      kHighest, report.trials.size() > 1 ? " under each schedule" : "", table_html(first),
      all.size() - 1, table_html(all));
  return out;
}

std::vector<Section> sections_of(const DeviceSummary& d) {
  const Fragmentation& f = d.fragmentation;
  Section end{"Left at the program's end", {left_text(f)}};
  constexpr std::size_t kSteps = 8;
  Section phases{"Peaks by step and phase",
                 {"Peaks on the same device, in the first steps, the highest and the last. A step "
                  "ends with the program's optimizers."},
                 {},
                 phase_rows(d, kSteps, figure_cell)};
  if (phases.rows.empty())
    phases.text = {"The program ran no phase: no module, backward or optimizer."};
  for (const std::string& line : repeats_lines(d)) phases.text.push_back(line + ".");
  Section wastes{
      "Memory to look at",
      {"Memory on the same device that the program may do without, beside all that is active at "
       "that moment."},
      {},
      {{"kind", "memory", "blocks", "module", "line"}}};
  std::vector<std::string> none, unknown;
  for (const Waste& waste : d.wastes) {
    if (!waste.bytes || *waste.bytes == 0) {
      (waste.bytes ? none : unknown).push_back(waste.name);
      continue;
    }
    wastes.rows.push_back(
        {waste.name,
         fmt::format("{} of {}{}\t{} of {} bytes", bytes_text(*waste.bytes),
                     bytes_text(waste.active),
                     waste.process.empty()
                         ? ""
                         : ", of " + place_name(waste.process, waste.device, waste.several),
                     exact(*waste.bytes), exact(waste.active)),
         "", "", ""});
    for (const Part& part : waste.parts)
      wastes.rows.push_back(
          {"", figure_cell(part.bytes), std::to_string(part.count), part.module, part.site});
    if (waste.holder.is_known())
      wastes.rows.push_back({"", "", "", "", "held by " + waste.holder.text()});
  }
  if (none.empty() && wastes.rows.size() == 1) {
    wastes.text = {"Not known: no backward has ended."};
    unknown.clear();
  }
  if (!none.empty()) wastes.text.push_back(fmt::format("None: {}.", fmt::join(none, "; ")));
  if (!unknown.empty())
    wastes.text.push_back(
        fmt::format("Not known, since their moment has not come: {}.", fmt::join(unknown, "; ")));
  std::vector<Section> out;
  if (!d.wastes.empty()) out.push_back(std::move(wastes));
  if (!d.phases.empty() || !d.parts.empty()) out.push_back(std::move(phases));
  out.push_back(std::move(end));
  return out;
}

}  // namespace tidemark
