#include "reports/snapshot/phases.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "reports/snapshot/walk.h"

namespace tidemark {
namespace {

Holdings higher(const Holdings& a, const Holdings& b) {
  return {std::max(a.allocated, b.allocated), std::max(a.active, b.active),
          std::max(a.reserved, b.reserved)};
}

// The highest of a stretch of levels, by a tree of maxima: a program may have a hundred thousand
// phases.
class Highest {
 public:
  Highest(const Holdings& begin, const std::vector<Holdings>& curve) : size_(curve.size() + 1) {
    tree_.resize(2 * size_);
    tree_[size_] = begin;
    std::ranges::copy(curve, tree_.begin() + static_cast<std::ptrdiff_t>(size_) + 1);
    for (std::size_t i = size_ - 1; i > 0; --i) tree_[i] = higher(tree_[2 * i], tree_[2 * i + 1]);
  }
  // After `first` to after `last` events.
  Holdings between(std::size_t first, std::size_t last) const {
    Holdings found = tree_[size_ + first];
    for (std::size_t a = first + size_, b = last + size_ + 1; a < b; a /= 2, b /= 2) {
      if (a % 2 == 1) found = higher(found, tree_[a++]);
      if (b % 2 == 1) found = higher(found, tree_[--b]);
    }
    return found;
  }

 private:
  std::size_t size_;
  std::vector<Holdings> tree_;
};

}  // namespace

std::vector<PhasePeak> peaks_of(const std::vector<ProgramPhase>& phases, std::size_t device,
                                const std::vector<TraceEvent>& trace, const Holdings& begin,
                                const std::vector<Holdings>& curve) {
  std::map<ProgramPhase::Moment, std::size_t> moments{{{}, 0}};  // events of the trace until then
  for (TraceWalk walk(trace); walk.next();) moments.emplace(walk.moment(), walk.place() + 1);
  const Highest highest(begin, curve);
  struct Row {
    std::size_t begin, place;  // in the trace, and among `phases`
    PhasePeak peak;
  };
  std::map<std::pair<std::int64_t, std::string>, Row> rows;
  for (const ProgramPhase& phase : phases) {
    if (static_cast<std::size_t>(phase.device) != device) continue;
    const auto from = moments.find(phase.begin);
    const auto to = moments.find(phase.end);
    if (from == moments.end() || to == moments.end() || to->second < from->second) continue;
    const Holdings peak = highest.between(from->second, to->second);
    const auto [row, fresh] = rows.try_emplace(
        {phase.step, phase.name}, Row{from->second, rows.size(), {phase.step, phase.name, peak}});
    if (fresh) continue;
    row->second.begin = std::min(row->second.begin, from->second);
    row->second.peak.peak = higher(row->second.peak.peak, peak);
  }
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::ranges::stable_sort(sorted, [](const Row& a, const Row& b) {
    return std::tuple(a.peak.step, a.begin, a.place) < std::tuple(b.peak.step, b.begin, b.place);
  });
  std::vector<PhasePeak> out;
  out.reserve(sorted.size());
  for (Row& row : sorted) out.push_back(std::move(row.peak));
  return out;
}

}  // namespace tidemark
