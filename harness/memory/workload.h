// What a program asked of the caching allocator: a trace without what the allocator did by itself,
// so that the same requests can be made under other settings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/memory/rewind.h"
#include "harness/memory/snapshot.h"

namespace tidemark {

struct AllocatorRequest {
  enum class What {
    take,         // a block
    free,         // the program has freed the block, and another stream uses it still
    come_back,    // the allocator has the block back; without `free`, as the program frees it
    empty_cache,  // torch.cuda.empty_cache()
    refused,      // a block that the allocator could not give
  };
  What what = What::take;
  std::size_t event = 0;  // of the trace
  /// Of a block: the event that allocated it; of one from before the trace SIZE_MAX.
  std::size_t block = SIZE_MAX;
  std::int64_t address = 0;  // as recorded
  Bytes bytes = 0;           // as requested; of `refused` what the allocator made of it
  std::int64_t stream = 0;
  PoolId pool{};
  std::uint32_t stack = 0;
};

struct Workload {
  std::vector<AllocatorRequest> requests;
  /// Frees that came back while an allocation waited for them (a retry), and their bytes: under
  /// other settings they may come back later.
  std::size_t forced = 0;
  Bytes forced_bytes = 0;
  std::size_t retries = 0;  // how often the allocator gave back what it had cached, to make room
};

/// The requests of a device's trace. Segments that come and go are the allocator's own, but for
/// those that torch.cuda.empty_cache() gave back. Which of the two it was follows from the stacks;
/// without them from the level of reserved memory, since a retry needs a full device. Throws
/// SnapshotError where neither tells, and where private pools are given back.
Workload workload_of(const Snapshot& snapshot, std::size_t device, const MemoryBefore& before);

}  // namespace tidemark
