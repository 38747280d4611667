// A recording replayed in PyTorch's own caching allocator: the segments from before its trace are
// built, then its allocations and frees are made again, on the virtual device, with every segment
// at its recorded address.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "reports/snapshot/snapshot.h"

namespace tidemark {

struct SnapshotReplay {
  std::size_t events = 0, streams = 0;
  std::size_t segments_before = 0, segments_after = 0;
  std::size_t segment_events = 0;  // recorded
  std::optional<std::string>
      wrong;  // the first segment event, or segment at the end, that is not as recorded
  std::size_t allocations = 0, same_address = 0;
  int exit_code() const { return wrong ? 1 : 0; }
  std::string text(const std::string& file) const;
};

/// Throws SnapshotError where the recording cannot be replayed, std::runtime_error where this
/// process has no virtual device. A freed block is given back where the recording says that its
/// free was completed. Takes the device for itself.
SnapshotReplay replay_snapshot(const Snapshot& snapshot);

}  // namespace tidemark
