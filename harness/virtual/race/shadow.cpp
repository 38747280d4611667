#include "harness/virtual/race/shadow.h"

#include <algorithm>

namespace tidemark::race {
namespace {

// A range that so many unordered accesses share (partial ones, or readers on so many streams)
// forgets the oldest.
constexpr std::size_t kLongest = 48;

bool same_access(const Access& a, const Access& b) {
  return a.stream == b.stream && a.place == b.place && a.label == b.label && a.write == b.write &&
         a.block == b.block;
}

void note(std::vector<Conflict>& conflicts, const Access& before, std::size_t bytes, bool within) {
  for (Conflict& c : conflicts) {
    if (c.within_operator != within || !same_access(c.before, before)) continue;
    c.bytes += bytes;
    return;
  }
  conflicts.push_back({before, bytes, within});
}

}  // namespace

void Shadow::collect(const Access& access, const Order& order, std::uintptr_t begin,
                     const Segment& segment, std::vector<Conflict>& conflicts) {
  for (const Access& old : segment.history) {
    if (!old.write && !access.write) continue;
    // An operator's own arguments: they may be the same tensor, or views of one storage (PyTorch
    // has rules for these), but memory that belongs to two storages has been given away twice.
    const bool within = old.stream == access.stream && old.place == access.place && old.storage &&
                        access.storage && old.storage != access.storage &&
                        old.where != access.where;
    if (!within && order.after(old)) continue;
    const std::size_t bytes = common_bytes(access.where, old.where, begin, segment.end);
    if (bytes > 0) note(conflicts, old, bytes, within);
  }
}

void Shadow::add(const Access& access, const Order& order, std::uintptr_t begin, Segment& segment) {
  // An operation that is ordered after this access is also ordered after all accesses before it. A
  // reported race is not reported again for every later access.
  std::erase_if(segment.history, [&](const Access& old) {
    return (access.write || (!old.write && order.after(old))) &&
           covers(access.where, old.where, begin, segment.end);
  });
  if (segment.history.size() >= kLongest) segment.history.erase(segment.history.begin());
  segment.history.push_back(access);
}

void Shadow::cut(std::uintptr_t at) {
  auto next = segments_.lower_bound(at);
  if (next == segments_.begin() || (next != segments_.end() && next->first == at)) return;
  auto& segment = std::prev(next)->second;
  if (segment.end <= at) return;
  segments_.emplace_hint(next, at, Segment{segment.end, segment.history});
  segment.end = at;
}

void Shadow::record(const Access& access, const Order& order, std::vector<Conflict>& conflicts) {
  const std::uintptr_t begin = access.where.begin, end = access.where.end();
  if (begin >= end) return;
  cut(begin);
  cut(end);
  auto at = segments_.lower_bound(begin);
  if (access.write && access.where.dense()) {
    const auto first = at;
    for (; at != segments_.end() && at->first < end; ++at)
      collect(access, order, at->first, at->second, conflicts);
    if (first != at && first->first == begin) {  // the common case: the same range again
      first->second.end = end;
      first->second.history.assign(1, access);
      segments_.erase(std::next(first), at);
    } else {
      segments_.erase(first, at);
      segments_.emplace_hint(at, begin, Segment{end, {access}});
    }
    return;
  }
  std::size_t pieces = 0;
  for (std::uintptr_t place = begin; place < end; ++pieces) {
    if (at == segments_.end() || at->first > place) {
      const std::uintptr_t stop = at == segments_.end() ? end : std::min(end, at->first);
      segments_.emplace_hint(at, place, Segment{stop, {access}});
      place = stop;
    } else {
      collect(access, order, place, at->second, conflicts);
      add(access, order, place, at->second);
      place = at->second.end;
      ++at;
    }
  }
  if (pieces > 1) join(begin, end);
}

void Shadow::compare(const Access& access, const Order& order,
                     std::vector<Conflict>& conflicts) const {
  auto at = segments_.upper_bound(access.where.begin);
  if (at != segments_.begin()) --at;
  for (; at != segments_.end() && at->first < access.where.end(); ++at)
    collect(access, order, at->first, at->second, conflicts);
}

void Shadow::join(std::uintptr_t begin, std::uintptr_t end) {
  auto at = segments_.lower_bound(begin);
  while (at != segments_.end() && at->first < end) {
    auto next = std::next(at);
    if (next == segments_.end() || next->first >= end) return;
    if (next->first == at->second.end && next->second.history == at->second.history) {
      at->second.end = next->second.end;
      segments_.erase(next);
    } else {
      at = next;
    }
  }
}

void Shadow::forget(const VectorClock& done) {
  for (auto at = segments_.begin(); at != segments_.end();) {
    std::erase_if(at->second.history, [&](const Access& a) { return done[a.stream] >= a.place; });
    at = at->second.history.empty() ? segments_.erase(at) : std::next(at);
  }
}

}  // namespace tidemark::race
