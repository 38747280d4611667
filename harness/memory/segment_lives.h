// The segments of a device over the moments of its trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// A range of memory that the allocator has taken from the device, at the moments from `from` to
/// before `until`: a segment, or a mapped part of an expandable one.
struct SegmentLife {
  std::int64_t address = 0;
  Bytes bytes = 0;
  std::int64_t stream = 0;
  PoolId pool{};  // {0, 0}: PyTorch's own; {-1, -1}: not known
  bool mapped = false;
  std::size_t from = 0, until = 0;
};

/// Follows the segments through a trace. `pools`: the segments at its end, which name theirs.
class SegmentLives {
 public:
  explicit SegmentLives(std::size_t device, const std::vector<Segment>& pools,
                        const std::vector<PooledSegment>& pooled = {});
  /// A segment that was there before the trace's first event.
  void before(const Segment& segment);
  /// Takes an event after which it is `moment`, which is one more than its place in the trace.
  void apply(const AllocatorEvent& event, std::size_t moment);
  /// What is there at the end stays until before `end`. By their begins. Where some have private
  /// pools, those of what was given back before are not known, unless events
  /// say the pools of all (`pooled`).
  std::vector<SegmentLife> take(std::size_t end);

 private:
  void begin(SegmentLife one);
  void unmap(std::int64_t address, Bytes bytes, std::size_t moment);

  std::vector<SegmentLife> out_;
  std::map<std::int64_t, std::size_t> live_;                       // by address
  std::map<std::int64_t, std::pair<std::int64_t, PoolId>> pools_;  // by address: end, pool
  std::map<std::size_t, PoolId> pooled_;                           // by event
};

}  // namespace tidemark
