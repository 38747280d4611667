#include "reports/program/alive.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

std::string oom_lines(const HighestPeak& peak, bool with_schedule, std::size_t top, bool needs) {
  if (peak.ooms.empty()) return "";
  const OutOfMemory& oom = peak.ooms.front();
  std::string text = (with_schedule ? "schedule " + peak.schedule + ", " : "") +
                     place_name(oom.process, oom.device, oom.several) + ": " +
                     oom_text(oom, !needs) + "\n";
  if (peak.ooms.size() > 1)
    text +=
        fmt::format("and out of memory on {}\n", plural(std::ssize(peak.ooms) - 1, "more device"));
  if (oom.at_peak || oom.parts.empty()) return text;
  const ByteUnit unit = unit_for(oom.held.active);
  return text + "alive at that moment, as requested:\n" + parts_text(oom.parts, top, &unit);
}

// Wastes that have no bytes.
std::string nothing_text(const std::vector<Waste>& wastes) {
  const bool known =
      std::ranges::all_of(wastes, [](const Waste& one) { return one.bytes.has_value(); });
  return known ? "nothing was found" : "not known, no backward has ended";
}

// Text about the device that has most left, by kind, and the sum alone of the others.
std::string left_text(const std::vector<LeftAtEnd>& left) {
  constexpr std::ptrdiff_t kNamed = 8;
  if (left.empty()) return "";
  const auto [least, most] = std::ranges::minmax_element(left, {}, &LeftAtEnd::bytes);
  std::string text = "alive at the program's end, as requested: ";
  if (most->bytes == 0) return text + "nothing\n";
  std::vector<std::string> kinds, others;
  for (const TensorKind& kind : kinds_of(most->parts))
    kinds.push_back(fmt::format("{} {}", name_of(kind.kind), bytes_text(kind.bytes)));
  const auto of = [](const LeftAtEnd& one) {
    return fmt::format("{} of {}", bytes_text(one.bytes),
                       place_name(one.process, one.device, one.several));
  };
  text += fmt::format("{} ({})", of(*most), fmt::join(kinds, ", "));
  for (const LeftAtEnd& one : left)
    if (&one != &*most) others.push_back(of(one));
  if (std::ssize(others) > kNamed) others = {of(*least) + ", which has least"};
  return text + (others.empty() ? "" : fmt::format("; {}", fmt::join(others, ", "))) + "\n";
}

}  // namespace

std::string alive_text(const std::vector<HighestPeak>& peaks, bool needs) {
  constexpr std::size_t kLines = 3;  // of a kind
  std::string text;
  for (const HighestPeak& one : peaks)
    for (const std::string& line : one.unreadable) text += "tidemark: --report: " + line + "\n";
  const HighestPeak* highest = highest_of(peaks);
  if (highest == nullptr)
    return text + "tidemark: --report: no process of the program has ended with a snapshot\n";
  const HighestPeak& peak = *highest;
  for (const HighestPeak& one : peaks) text += oom_lines(one, peaks.size() > 1, kLines, needs);
  const ByteUnit unit = unit_for(peak.device.peak.active);
  if (peak.device.peak.active > 0)
    text += fmt::format("alive at the highest peak of active memory, {} as requested, of {}:\n",
                        bytes_text(peak.device.peak.active),
                        place_name(peak.file.stem(), peak.device.device, peak.several));
  text += parts_text(peak.device.parts, kLines, &unit);
  if (std::ranges::any_of(peak.device.wastes, [](const Waste& one) { return one.bytes > 0; }))
    text += "memory to look at, as requested:\n" + wastes_text(peak.device, kLines, &unit);
  else if (!peak.device.wastes.empty())
    text += fmt::format("memory to look at: {}\n", nothing_text(peak.device.wastes));
  text += left_text(peak.left);
  return text +
         fmt::format("all parts: tidemark snapshot show --top 1000 {}\n", shell_word(peak.file));
}

}  // namespace tidemark
