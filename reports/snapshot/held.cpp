// Holders of memory, as text: parts of a peak, an allocation that failed, memory that a program may
// do without.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/memory/analysis.h"
#include "harness/memory/format/format.h"
#include "harness/memory/parts.h"
#include "harness/memory/places.h"
#include "reports/snapshot/lines.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

/// In that unit, or all digits.
std::string figure(std::int64_t bytes, const ByteUnit* unit) {
  return unit == nullptr ? exact(bytes) : (*unit)(bytes);
}

/// "; at least 1 GiB are lacking".
std::string lacking_text(Bytes lacking) {
  return lacking > 0 ? fmt::format("; at least {} are lacking", bytes_text(lacking))
                     : std::string("; it may fit if all that is not in use were one piece");
}

std::string part_line(const Part& part, const ByteUnit* unit) {
  return fmt::format("{:>{}} in {}{}{}{}{}", figure(part.bytes, unit), unit == nullptr ? 24 : 18,
                     plural(part.count, "block"), part.module.empty() ? "" : ", ",
                     one_line(part.module), part.site.empty() ? "" : ", ", part.site);
}

/// Of a file without more than the event, whose figures are as requested.
std::string text_of(const OutOfMemory& oom, bool lacking) {
  const auto& [allocated, active, reserved] = oom.held;
  std::string out = fmt::format("wanted {} and the device had {} free", bytes_text(oom.wanted),
                                bytes_text(oom.device_free));
  if (reserved > 0)
    out += fmt::format(" beside the allocator's {}: {} in use", bytes_text(reserved),
                       bytes_text(allocated));
  if (active > allocated)
    out += fmt::format(", {} freed but held for another stream", bytes_text(active - allocated));
  if (reserved > active)
    out += fmt::format(", {} in {}gaps and roundings", bytes_text(reserved - active),
                       oom.pools ? "private pools, " : "");
  if (oom.pools || !lacking) return out;
  return out + lacking_text(oom.wanted - oom.device_free - (reserved - allocated));
}

/// Of a record. The figures are those of PyTorch's own message: of whole blocks, and what is free
/// in private pools is a part of its own.
///
/// What is lacking at least: the request is served by a free block of its pool, or by a new segment
/// of `asked` bytes. The blocks of the pool hold at most `usable` bytes that are not in use, and
/// the device gives at most `room`, and what the allocator would give back to it. So `wanted -
/// usable` bytes are lacking for the one, `asked - room - usable` for the other.
std::string text_of(const OutOfMemory& oom, const RefusedRequest& request, bool lacking) {
  const Bytes room = room_of(oom);
  std::string out = "wanted " + bytes_text(oom.wanted);
  if (bytes_text(request.asked) != bytes_text(oom.wanted))
    out += fmt::format(", for which PyTorch asks {} of the device,", bytes_text(request.asked));
  out += fmt::format(" and the device had {} free", bytes_text(oom.device_free));
  if (request.reserved > 0)
    out += fmt::format(" beside the allocator's {}", bytes_text(request.reserved));
  if (request.outside > 0)
    out += fmt::format("{} {} outside the allocator", request.reserved > 0 ? " and" : " beside",
                       bytes_text(request.outside));
  out += limit_text(request.limit);
  const Bytes pending = request.active - request.allocated,
              gaps = request.reserved - request.active - request.in_pools;
  if (request.reserved > 0) out += fmt::format(": {} in use", bytes_text(request.allocated));
  if (request.in_pools > 0)
    out += fmt::format(", {} free in private pools (of CUDA graphs and MemPools)",
                       bytes_text(request.in_pools));
  if (pending > 0)
    out += fmt::format(", {} freed but held for another stream", bytes_text(pending));
  if (gaps > 0) out += fmt::format(", {} in gaps", bytes_text(gaps));
  if (!request.usable || !lacking) return out;
  const Bytes usable = *request.usable + pending;
  return out + lacking_text(std::min(oom.wanted, request.asked - room) - usable);
}

std::string waste_figure(const Waste& waste, const ByteUnit* unit) {
  if (!waste.bytes) return "not known, no backward has ended";
  return fmt::format("{} of {} {}{}", figure(*waste.bytes, unit), figure(waste.active, unit),
                     unit == nullptr ? "bytes" : unit->name,
                     waste.process.empty()
                         ? ""
                         : ", of " + place_name(waste.process, waste.device, waste.several));
}

}  // namespace

std::string parts_text(const std::vector<Part>& parts, std::size_t top, const ByteUnit* unit) {
  std::int64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  std::string out;
  for (const TensorKind& kind : kinds_of(parts)) {
    out += fmt::format("    {:<22} {:>{}} {} {:>6.1f}%\n", name_of(kind.kind),
                       figure(kind.bytes, unit), unit == nullptr ? 16 : 10,
                       unit == nullptr ? "bytes" : unit->name,
                       100.0 * static_cast<double>(kind.bytes) / static_cast<double>(sum));
    out += first_lines(kind.parts, top, "      ",
                       [&](const Part& part) { return part_line(part, unit); });
  }
  return out;
}

std::string limit_text(Bytes limit) {
  return limit == 0 ? ""
                    : fmt::format(", and the process may have {} (its memory fraction)",
                                  bytes_text(limit));
}

std::string oom_text(const OutOfMemory& oom, bool lacking) {
  const std::string where = oom.module.empty() || oom.module == recorder::kOutsideModules
                                ? ""
                                : "module " + one_line(oom.module) + ", ";
  return fmt::format("out of memory: {}{} {}", where, oom.site,
                     oom.request ? text_of(oom, *oom.request, lacking) : text_of(oom, lacking));
}

std::string wastes_text(const DeviceSummary& d, std::size_t top, const ByteUnit* unit) {
  std::string out;
  std::vector<std::string> none;
  for (const Waste& waste : d.wastes) {
    if (unit != nullptr && waste.bytes == 0) {
      none.push_back(waste.name);
      continue;
    }
    out += fmt::format("    {}: {}\n", waste.name, waste_figure(waste, unit));
    out += first_lines(waste.parts, top, "      ",
                       [&](const Part& part) { return part_line(part, unit); });
    if (waste.bytes > 0 && waste.holder.is_known())
      out += fmt::format("      held by {}\n", one_line(waste.holder.text()));
  }
  return none.empty() ? out : out + fmt::format("    none: {}\n", fmt::join(none, "; "));
}

}  // namespace tidemark
