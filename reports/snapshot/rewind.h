// The segments of a snapshot as they were before the first event of its trace.
#pragma once

#include <vector>

#include "reports/snapshot/snapshot.h"

namespace tidemark {

/// The one trace with events. Throws SnapshotError where there is none, or where several devices
/// have one.
const std::vector<TraceEvent>& only_trace(const Snapshot& snapshot);

/// Undoes the trace from its end. A block that was freed in the trace and allocated before it has
/// the size that was requested, rounded up to 512 bytes; what the allocator did not split off
/// is known where the rest up to the next block is too short to be a block. Free blocks are merged.
/// Throws SnapshotError, naming the event, where trace and segments contradict each other, and for
/// expandable segments and private pools.
std::vector<SnapshotSegment> segments_before(const Snapshot& snapshot);

}  // namespace tidemark
