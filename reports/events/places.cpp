#include "reports/events/places.h"

#include <algorithm>
#include <functional>
#include <map>
#include <ranges>
#include <set>

namespace tidemark {
namespace {

/// Segments that are there, by their beginning.
class Segments {
 public:
  explicit Segments(std::size_t& made) : made_(made) {}
  void add(std::int64_t begin, std::int64_t size) { there_[begin] = {begin + size, made_++}; }
  void remove(std::int64_t begin) { there_.erase(begin); }
  /// Memory of an expandable segment, which is one with what touches it.
  void extend(std::int64_t begin, std::int64_t size) {
    std::int64_t end = begin + size;
    auto at = there_.upper_bound(end);
    while (at != there_.begin() && std::prev(at)->second.end >= begin) {
      --at;
      begin = std::min(begin, at->first), end = std::max(end, at->second.end);
      at = there_.erase(at);
    }
    add(begin, end - begin);
  }
  BlockPlace place(std::int64_t address) const {
    const auto after = there_.upper_bound(address);
    if (after == there_.begin() || address >= std::prev(after)->second.end) return {};
    return std::pair(std::prev(after)->second.number, address - std::prev(after)->first);
  }

 private:
  struct Segment {
    std::int64_t end;
    std::size_t number;
  };
  std::map<std::int64_t, Segment> there_;
  std::size_t& made_;
};

}  // namespace

std::vector<BlockPlace> places_of(const Snapshot& snapshot, std::size_t device) {
  const auto& trace = snapshot.traces[device];
  std::size_t made = 0;
  Segments segments(made);
  std::map<std::int64_t, Segments> expandable;  // by stream: one may begin where another one was
  const auto extend = [&](std::int64_t address, std::int64_t size, std::int64_t stream) {
    expandable.try_emplace(stream, made).first->second.extend(address, size);
  };
  // Segments from before the trace, found from its end backwards.
  std::map<std::int64_t, std::int64_t> before;  // sizes
  for (const Segment& s : snapshot.segments) {
    if (static_cast<std::size_t>(s.device) != device) continue;
    if (s.expandable)
      extend(s.address, s.total_size, s.stream);
    else
      before[s.address] = s.total_size;
  }
  for (const AllocatorEvent& e : trace | std::views::reverse) {
    if (e.action == AllocatorAction::segment_alloc) before.erase(e.address);
    if (e.action == AllocatorAction::segment_free) before[e.address] = e.size;
    if (e.action == AllocatorAction::segment_map || e.action == AllocatorAction::segment_unmap)
      extend(e.address, e.size, e.stream);
  }
  for (const auto& [address, size] : before) segments.add(address, size);
  std::vector<BlockPlace> out;
  for (const AllocatorEvent& e : trace) {
    if (e.action == AllocatorAction::segment_alloc) segments.add(e.address, e.size);
    if (e.action == AllocatorAction::segment_free) segments.remove(e.address);
    if (e.action != AllocatorAction::alloc) continue;
    const auto mapped = expandable.find(e.stream);
    out.push_back(segments.place(e.address));
    if (!out.back() && mapped != expandable.end()) out.back() = mapped->second.place(e.address);
  }
  return out;
}

SamePlaces same_places(const std::vector<BlockPlace>& a, const std::vector<BlockPlace>& b,
                       std::size_t count) {
  using Pair = std::pair<std::size_t, std::size_t>;
  std::map<Pair, std::size_t> pairs;  // with the number of blocks at the same offset
  SamePlaces out;
  for (std::size_t i = 0; i < std::min({count, a.size(), b.size()}); ++i) {
    if (!a[i] || !b[i]) continue;
    ++out.compared;
    if (a[i]->second == b[i]->second) ++pairs[{a[i]->first, b[i]->first}];
  }
  std::vector<std::pair<std::size_t, Pair>> order;
  for (const auto& [pair, blocks] : pairs) order.emplace_back(blocks, pair);
  std::ranges::stable_sort(order, std::greater{}, [](const auto& each) { return each.first; });
  std::set<std::size_t> taken_a, taken_b;
  for (const auto& [blocks, pair] : order) {
    if (taken_a.contains(pair.first) || taken_b.contains(pair.second)) continue;
    taken_a.insert(pair.first), taken_b.insert(pair.second);
    out.same += blocks;
  }
  return out;
}

}  // namespace tidemark
