#include "harness/memory/phases.h"

#include <algorithm>
#include <cstdint>
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
  constexpr std::size_t kAbsent = SIZE_MAX;
  std::map<ProgramPhase::Moment, std::size_t> moments;  // of phases: events of the trace until then
  for (const ProgramPhase& phase : phases)
    if (static_cast<std::size_t>(phase.device) == device)
      moments.emplace(phase.begin, kAbsent), moments.emplace(phase.end, kAbsent);
  if (moments.empty()) return {};
  const auto found = [&](const ProgramPhase::Moment& moment, std::size_t events) {
    const auto known = moments.find(moment);
    if (known != moments.end() && known->second == kAbsent) known->second = events;
  };
  found({}, 0);
  for (TraceWalk walk(trace); walk.next();) found(walk.moment(), walk.place() + 1);
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
    const std::size_t from = moments.at(phase.begin), to = moments.at(phase.end);
    if (from == kAbsent || to == kAbsent || to < from) continue;
    const Holdings peak = highest(from, to);
    const auto [at, fresh] = row_of.try_emplace({phase.step, phase.name}, rows.size());
    if (fresh) rows.push_back({from, {phase.step, phase.name, peak}});
    Row& row = rows[at->second];
    row.begin = std::min(row.begin, from);
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
