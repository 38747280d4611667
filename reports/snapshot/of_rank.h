// Memory of a rank in a run, as a PyTorch memory snapshot.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "harness/record/record.h"
#include "reports/snapshot/snapshot.h"

namespace tidemark {

/// The segments at the end of the last step and the events of that step, on one device. Every event
/// has one frame: the operator, with the phase in place of a file. Streams are numbered: 0 the
/// default one. Without segments and events where none were recorded.
Snapshot snapshot_of(const RankRecord& rank);

/// A segment with its blocks, on device 0 and stream 0. `made`: the stack of the allocation that
/// took an address last, which its block has unless it is free.
SnapshotSegment segment_of(const Segment& from,
                           const std::unordered_map<std::int64_t, std::uint32_t>& made);

}  // namespace tidemark
