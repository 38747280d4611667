// Holders of memory, as text: parts of a peak, an allocation that failed, memory without need.
#include <fmt/format.h>

#include <algorithm>

#include "harness/memory/analysis.h"
#include "harness/memory/format/format.h"
#include "harness/memory/parts.h"
#include "reports/snapshot/lines.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

std::string part_line(const Part& part) {
  return fmt::format("{:>24} in {}{}{}{}{}", exact(part.bytes), plural(part.count, "block"),
                     part.module.empty() ? "" : ", ", one_line(part.module),
                     part.site.empty() ? "" : ", ", part.site);
}

/// "4 x 1,024 + 1 x 8" of what was alive at the peak, the sizes with most bytes first.

}  // namespace

std::string parts_text(const std::vector<Part>& parts, std::size_t top) {
  std::int64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  std::string out;
  for (const TensorKind& kind : kinds_of(parts)) {
    out += fmt::format("    {:<22} {:>16} bytes {:>6.1f}%\n", name_of(kind.kind), exact(kind.bytes),
                       100.0 * static_cast<double>(kind.bytes) / static_cast<double>(sum));
    out += first_lines(kind.parts, top, "      ", part_line);
  }
  return out;
}

std::string oom_text(const OutOfMemory& oom) {
  const std::string where = oom.module.empty() || oom.module == recorder::kOutsideModules
                                ? ""
                                : "module " + one_line(oom.module) + ", ";
  const auto& [allocated, active, reserved] = oom.held;
  std::string out = fmt::format("out of memory: {}{} wanted {} bytes and the device had {} free",
                                where, oom.site, exact(oom.wanted), exact(oom.device_free));
  if (reserved > 0)
    out += fmt::format(" beside the allocator's {}: {} in use", exact(reserved), exact(allocated));
  if (active > allocated)
    out += fmt::format(", {} freed but held for another stream", exact(active - allocated));
  if (reserved > active) out += fmt::format(", {} in gaps and roundings", exact(reserved - active));
  const std::int64_t lacking = oom.wanted - oom.device_free - (reserved - allocated);
  return out + (lacking > 0 ? fmt::format("; at least {} bytes are lacking", exact(lacking))
                            : std::string("; it may fit if all that is not in use were one piece"));
}

std::string waste_figure(const Waste& waste) {
  if (!waste.bytes) return "not known, no backward has run";
  return fmt::format("{} of {} bytes{}", exact(*waste.bytes), exact(waste.active),
                     waste.process.empty() ? "" : ", of " + waste.process);
}

std::string wastes_text(const DeviceSummary& d, std::size_t top) {
  std::string out;
  for (const Waste& waste : d.wastes) {
    out += fmt::format("    {}: {}\n", waste.name, waste_figure(waste));
    out += first_lines(waste.parts, top, "      ", part_line);
  }
  return out;
}

}  // namespace tidemark
