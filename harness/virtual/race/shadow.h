// The shadow of memory: by address range, the last write and the reads since. Ranges are split
// where accesses begin and end, and merged again if they have the same history. Accesses that the
// host knows to be done are forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/virtual/race/footprint.h"
#include "harness/virtual/race/vector_clock.h"

namespace tidemark::race {

using device::VectorClock;

struct Access {
  Footprint where;
  std::uint32_t stream = 0, label = 0;
  std::uint64_t place = 0;        // which operation of the stream
  std::uint64_t block = 0;        // of the allocator, 0: unknown
  const void* storage = nullptr;  // whose memory an operator's argument is; null outside operators
  bool write = false;
  bool operator==(const Access&) const = default;
};

/// Accesses that are ordered before an operation: by its stream, and by what the host has waited
/// for.
struct Order {
  const VectorClock& stream;
  const VectorClock& host;
  bool after(const Access& a) const {
    return stream[a.stream] >= a.place || host[a.stream] >= a.place;
  }
};

struct Conflict {
  Access before;
  std::size_t bytes = 0;
  bool within_operator = false;  // two arguments of one operator
};

class Shadow {
 public:
  /// Appends to `conflicts` what conflicts with `access` and is not ordered before it, then
  /// remembers the access.
  void record(const Access& access, const Order& order, std::vector<Conflict>& conflicts);
  /// The first half alone.
  void compare(const Access& access, const Order& order, std::vector<Conflict>& conflicts) const;
  /// Forgets what is ordered before everything to come.
  void forget(const VectorClock& done);
  void clear() { segments_.clear(); }

  std::size_t size() const { return segments_.size(); }
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [begin, segment] : segments_)
      for (const Access& access : segment.history) visit(access);
  }

 private:
  struct Segment {
    std::uintptr_t end;
    std::vector<Access> history;  // oldest first
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  void cut(std::uintptr_t at);
  static void collect(const Access& access, const Order& order, std::uintptr_t begin,
                      const Segment& segment, std::vector<Conflict>& conflicts);
  static void add(const Access& access, const Order& order, std::uintptr_t begin, Segment& segment);
  void join(std::uintptr_t begin, std::uintptr_t end);

  Segments segments_;
};

}  // namespace tidemark::race
