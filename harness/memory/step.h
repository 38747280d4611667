// Memory of the last step of a record: what it is made of at its highest moment, and over time.
// Bytes are those of the allocator's blocks, as PyTorch's statistics count them.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "harness/memory/snapshot.h"
#include "harness/record/rank.h"

namespace tidemark {

struct StepMemory {
  /// By kind, at the highest allocated moment since the step began, and at its end; the shares sum
  /// to the allocator's figure.
  std::map<MemoryKind, Category> categories;
  std::vector<Sample> timeline;     // after each of its events
  std::vector<AliveBlock> largest;  // at that moment, the largest first
};

/// About `most` of the samples: of each stretch the highest of every statistic.
std::vector<Sample> thinned(const std::vector<Sample>& samples, std::size_t most);

/// The events of a device while the program was built, then of each recorded step.
std::vector<MemoryHistory> by_steps(const Snapshot& history, std::size_t device);

/// The history in bytes of the allocator's blocks, as its statistics count them, in place of those
/// requested; of a record, which knows them.
Snapshot in_blocks(Snapshot history);

/// Of a device, with the `most` largest blocks. A block counts as the kind that its label last
/// named, before the next allocation; without a label it is `other`.
StepMemory step_memory(const Snapshot& history, std::size_t device, std::size_t most);

}  // namespace tidemark
