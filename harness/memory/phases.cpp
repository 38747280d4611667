#include "harness/memory/phases.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "harness/memory/walk.h"

namespace tidemark {
namespace {

Holdings higher(const Holdings& a, const Holdings& b) {
  return {std::max(a.allocated, b.allocated), std::max(a.active, b.active),
          std::max(a.reserved, b.reserved)};
}

}  // namespace

std::vector<PhasePeak> peaks_of(const std::vector<ProgramPhase>& phases, std::size_t device,
                                const std::vector<AllocatorEvent>& trace, const Holdings& begin,
                                const std::vector<Holdings>& curve) {
  std::map<ProgramPhase::Moment, std::size_t> moments{{{}, 0}};  // events of the trace until then
  for (TraceWalk walk(trace); walk.next();) moments.emplace(walk.moment(), walk.place() + 1);
  // The highest level after `first` to after `last` events.
  const auto highest = [&](std::size_t first, std::size_t last) {
    const auto at = [&](std::size_t events) {
      return curve.begin() + static_cast<std::ptrdiff_t>(events);
    };
    return std::accumulate(at(first), at(last), first == 0 ? begin : curve[first - 1], higher);
  };
  struct Row {
    std::size_t begin;  // in the trace
    PhasePeak peak;
  };
  std::vector<Row> rows;
  std::map<std::pair<std::int64_t, std::string>, std::size_t> row_of;  // by step and name
  for (const ProgramPhase& phase : phases) {
    if (static_cast<std::size_t>(phase.device) != device) continue;
    const auto from = moments.find(phase.begin);
    const auto to = moments.find(phase.end);
    if (from == moments.end() || to == moments.end() || to->second < from->second) continue;
    const Holdings peak = highest(from->second, to->second);
    const auto [at, fresh] = row_of.try_emplace({phase.step, phase.name}, rows.size());
    if (fresh) rows.push_back({from->second, {phase.step, phase.name, peak}});
    Row& row = rows[at->second];
    row.begin = std::min(row.begin, from->second);
    row.peak.peak = higher(row.peak.peak, peak);
  }
  std::ranges::stable_sort(rows, {},
                           [](const Row& row) { return std::pair(row.peak.step, row.begin); });
  std::vector<PhasePeak> out;
  out.reserve(rows.size());
  for (Row& row : rows) out.push_back(std::move(row.peak));
  return out;
}

}  // namespace tidemark
