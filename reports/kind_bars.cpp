#include "reports/kind_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/record/units.h"
#include "reports/markup.h"
#include "reports/saving.h"
#include "reports/still.h"

namespace tidemark {

std::vector<Picture> kind_bars(const std::string& title, const std::vector<KindBar>& bars) {
  Bytes largest = 1;
  std::set<MemoryKind> kinds;
  for (const KindBar& one : bars) {
    largest = std::max(largest, one.alive->active);
    for (const AlivePart& part : one.alive->parts) kinds.insert(part.kind);
  }
  if (kinds.empty()) return {};
  const ByteUnit unit = saving_unit(largest);
  std::string names, rows;
  for (const MemoryKind kind : kinds) names += legend_entry(tone_of(kind), name_of(kind));
  for (const KindBar& one : bars) {
    std::map<MemoryKind, Bytes> sums;
    for (const AlivePart& part : one.alive->parts) sums[part.kind] += part.bytes;
    std::string bar;
    Bytes total = 0;
    for (const auto& [kind, bytes] : sums) {
      total += bytes;
      bar += fmt::format("<i class=\"{}\" title=\"{}: {} bytes\" style=\"width:{:.3f}%\"></i>",
                         tone_of(kind), name_of(kind), exact(bytes),
                         100 * static_cast<double>(bytes) / static_cast<double>(largest));
    }
    if (!one.note.empty())
      rows += fmt::format("<div></div><div class=\"quiet\">{}</div>\n", markup_text(one.note));
    rows += fmt::format(
        "<div class=\"stack-name\">{}<span class=\"role\">{}</span></div><div "
        "class=\"stack\">{}<data value=\"{}\" title=\"{} bytes\">{}</data></div>\n",
        markup_text(one.name), markup_text(one.role), bar, total, exact(total), unit(total));
  }
  return {{title, "",
           fmt::format("{}<div class=\"stacks\">{}</div><p class=\"quiet\">In {}, as "
                       "requested.</p>",
                       legend(names), rows, unit.name)}};
}

}  // namespace tidemark
