#include "reports/program/alive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/parts.h"
#include "harness/record/units.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

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
