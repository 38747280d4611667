// Settings of the caching allocator under which a snapshot was recorded.
#pragma once

#include <string>

#include "harness/memory/snapshot.h"

namespace tidemark {

struct AllocatorSettings {
  bool expandable = false;  // segments, as it was last set
  bool collects = false;    // free blocks by age (garbage_collection_threshold)
  /// The settings that decide which block is taken, as PYTORCH_CUDA_ALLOC_CONF has them; without
  /// expandable_segments.
  std::string text;
};
AllocatorSettings allocator_settings(const Snapshot& snapshot);

}  // namespace tidemark
