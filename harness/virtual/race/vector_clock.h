// Vector clock: for each stream that matters, the number of its operations that are ordered before
// a point. Sparse and sorted: a program has hundreds of streams, of which a handful ever meet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tidemark::device {

class VectorClock {
 public:
  using Entry = std::pair<std::uint32_t, std::uint64_t>;  // stream, operations

  std::uint64_t operator[](std::uint32_t stream) const {
    for (const Entry& e : entries_) {
      if (e.first >= stream) return e.first == stream ? e.second : 0;
    }
    return 0;
  }

  void raise(std::uint32_t stream, std::uint64_t count) {
    auto at = std::lower_bound(entries_.begin(), entries_.end(), Entry{stream, 0});
    if (at != entries_.end() && at->first == stream) {
      at->second = std::max(at->second, count);
    } else {
      entries_.insert(at, {stream, count});
    }
  }

  void merge(const VectorClock& other) {
    for (const Entry& e : other.entries_) raise(e.first, e.second);
  }

  /// True if everything in `other` is in this one.
  bool covers(const VectorClock& other) const {
    auto mine = entries_.begin();
    for (const Entry& e : other.entries_) {
      while (mine != entries_.end() && mine->first < e.first) ++mine;
      if (mine == entries_.end() || mine->first != e.first || mine->second < e.second) return false;
    }
    return true;
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace tidemark::device
