// Events of PyTorch's caching allocator, of one device.
#pragma once

#include <array>
#include <cstdint>

namespace tidemark {

/// Kinds of events, in the order of c10's TraceEntry::Action: the numbers are PyTorch's.
enum class AllocatorAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
};

/// PyTorch's words for them, in memory snapshots.
constexpr auto words(AllocatorAction) {
  return std::array{"alloc",         "free_requested", "free_completed",
                    "segment_alloc", "segment_free",   "segment_map",
                    "segment_unmap", "snapshot",       "oom"};
}

/// True if it is of a block: an allocation, or a free that is requested or completed.
constexpr bool of_block(AllocatorAction action) {
  return action <= AllocatorAction::free_completed;
}

}  // namespace tidemark
