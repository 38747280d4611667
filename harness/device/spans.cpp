#include "harness/device/spans.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "harness/record/string_table.h"
#include "harness/virtual/device/control.h"

namespace tidemark {
namespace {

/// A kernel's function without its namespaces, template arguments and parameters.
std::string short_name(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  if (text == nullptr) return mangled;
  std::string name(text);
  std::free(text);
  name.resize(std::min(name.find('<'), name.find('(')));
  if (const auto space = name.rfind(' '); space != std::string::npos) name.erase(0, space + 1);
  if (const auto scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
  return name.empty() ? mangled : name;
}

/// True for each span that is kept.
std::vector<bool> chosen(const std::vector<tidemark_span>& all, std::size_t most,
                         const std::set<Operation>& racing) {
  std::vector<bool> keep(all.size(), true);
  if (all.size() <= most) return keep;
  std::vector<std::size_t> spare;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& s = all[i];
    const bool needed = s.kind == TIDEMARK_SPAN_COLLECTIVE || s.kind == TIDEMARK_SPAN_WAIT ||
                        racing.contains({s.stream, s.place});
    if (!needed) spare.push_back(i);
  }
  std::ranges::stable_sort(spare, std::greater(),
                           [&](std::size_t i) { return all[i].end - all[i].begin; });
  const std::size_t needed = all.size() - spare.size(), room = most > needed ? most - needed : 0;
  for (std::size_t i = room; i < spare.size(); ++i) keep[spare[i]] = false;
  return keep;
}

}  // namespace

Spans spans_of(const std::vector<tidemark_span>& all, std::size_t most,
               const std::set<Operation>& racing, SpanPlaces& places,
               const std::function<std::string(std::uint32_t)>& lane) {
  Spans out;
  out.streams.push_back("host");
  std::map<std::uint32_t, std::uint32_t> lanes{{TIDEMARK_HOST_LANE, 0}};
  StringTable names;
  const auto keep = chosen(all, most, racing);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const tidemark_span& s = all[i];
    if (!keep[i]) {
      ++out.left_out;
      continue;
    }
    const auto [entry, added] =
        lanes.try_emplace(s.stream, static_cast<std::uint32_t>(out.streams.size()));
    if (added) out.streams.push_back(lane(s.stream));
    const bool of_operator = *s.op != 0 && s.kind != TIDEMARK_SPAN_COLLECTIVE;
    if (racing.contains({s.stream, s.place}))
      places[{s.stream, s.place}] = static_cast<std::int64_t>(out.all.size());
    out.all.push_back({entry->second, names[of_operator ? s.op : short_name(s.name)],
                       static_cast<SpanKind>(s.kind), s.enqueued, s.begin, s.end});
  }
  out.names = names.all();
  return out;
}

}  // namespace tidemark
