#include "reports/snapshot/sites.h"

#include <algorithm>

#include "harness/memory/site.h"
#include "reports/compare/lines.h"

namespace tidemark {
namespace {

/// The source of each place whose line the snapshot has.
std::map<std::string, std::string> sources_of(const Snapshot& snapshot) {
  std::map<std::pair<std::string, std::int64_t>, std::string> lines;
  for (const SourceLine& one : snapshot.sources) lines[{one.file, one.line}] = one.text;
  std::map<std::string, std::string> out;
  for (std::uint32_t stack = 1; !lines.empty() && stack < snapshot.stacks.size(); ++stack)
    if (const StackFrame* frame = users_frame(snapshot, stack))
      if (const auto line = lines.find({frame->file, frame->line}); line != lines.end())
        out.try_emplace(site_of(snapshot, stack), line->second);
  return out;
}

/// Places as lines of a program. `sources`: without them all lines of a function say the same.
AliveAtPeak lines_of(const std::vector<Site>& sites,
                     const std::map<std::string, std::string>* sources) {
  AliveAtPeak out;
  for (const Site& one : sites) {
    AlivePart part;
    part.site = one.site;
    part.bytes = std::max(one.bytes, one.allocations * one.size);
    part.source = "?";
    if (sources != nullptr) {
      const auto source = sources->find(one.site);
      part.source = source == sources->end() ? "" : source->second;
    }
    out.parts.push_back(std::move(part));
  }
  return out;
}

}  // namespace

std::map<std::string, std::string> moved_sites(const Snapshot& before,
                                               const std::vector<Site>& sites_before,
                                               const Snapshot& after,
                                               const std::vector<Site>& sites_after) {
  const auto a = sources_of(before), b = sources_of(after);
  const bool known = !a.empty() && !b.empty();
  const AliveAtPeak moved = at_lines_of(lines_of(sites_before, known ? &a : nullptr),
                                        lines_of(sites_after, known ? &b : nullptr));
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < sites_before.size(); ++i)
    if (moved.parts[i].site != sites_before[i].site)
      out[sites_before[i].site] = moved.parts[i].site;
  return out;
}

std::vector<SiteChange> changes_between(const Snapshot& before, const Snapshot& after) {
  return differ(before, after, [&](const std::vector<Site>& a, const std::vector<Site>& b) {
    return moved_sites(before, a, after, b);
  });
}

}  // namespace tidemark
