// Settings of the caching allocator under which a snapshot was recorded.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/memory/snapshot.h"
#include "harness/memory/tree.h"

namespace tidemark {

struct AllocatorSettings {
  bool expandable = false;  // segments, as it was last set
  bool collects = false;    // free blocks by age (garbage_collection_threshold)
  /// The settings that decide which block is taken, as PYTORCH_CUDA_ALLOC_CONF has them; without
  /// expandable_segments.
  std::string text;
  std::string threshold;  // garbage_collection_threshold; empty: not set
  double fraction = 0;    // per_process_memory_fraction; 0: not set
  /// `text` with the threshold.
  std::string all_text() const;
};
/// `allocator_settings` of a file, as text; what is no value of a setting is left out.
std::vector<std::pair<std::string, std::string>> settings_in(const Tree& tree, Tree::Id dictionary);

AllocatorSettings allocator_settings(const Snapshot& snapshot);

/// The same with changes, as PYTORCH_CUDA_ALLOC_CONF has them. Throws SnapshotError for a setting
/// that no PyTorch has.
AllocatorSettings changed_settings(const Snapshot& snapshot, const std::string& changes);

}  // namespace tidemark
