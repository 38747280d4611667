// A device's memory as it was before a trace, built in PyTorch's own allocator.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "harness/cli/replayed_allocator.h"
#include "harness/memory/rewind.h"

namespace tidemark {

using LiveBlocks = std::unordered_map<std::int64_t, void*>;  // by recorded address

/// Returns the blocks that are allocated. `trace` follows: it shows where expandable segments
/// begin. Throws SnapshotError where the allocator does not make such segments or blocks.
LiveBlocks build(ReplayedAllocator& allocator, const MemoryBefore& before,
                 const std::vector<AllocatorEvent>& trace);

}  // namespace tidemark
