// The segments of a snapshot as they were before the first event of its trace.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Devices with a trace.
std::vector<std::size_t> traced_devices(const Snapshot& snapshot);

/// The device whose trace is read: `wished`, or the one that has a trace. Throws SnapshotError
/// where that is none, or where several devices have one and none is wished.
std::size_t traced_device(const Snapshot& snapshot, std::optional<std::size_t> wished = {});

/// The segment of an allocation or of a segment event.
struct Home {
  PoolId pool{};
  bool known = false;  // else nothing records the pool, and it counts as PyTorch's own
  bool expandable = false;
};

/// A device's memory before its trace.
struct MemoryBefore {
  std::vector<Segment> segments;  // by address; of an expandable one, what is mapped
  /// Blocks whose size is not known: more may have been given than was requested.
  std::size_t unsure = 0;
  std::map<std::size_t, Home> homes;  // by event of the trace
};

/// Undoes the trace from its end. A block that was freed in the trace and allocated before it has
/// the size that was requested, rounded up to 512 bytes; what the allocator did not split off
/// is known where the rest up to the next block is too short to be a block. Free blocks are merged.
/// Throws SnapshotError, naming the event, where trace and segments contradict each other.
MemoryBefore memory_before(const Snapshot& snapshot, std::size_t device);

}  // namespace tidemark
