// Comparison of the traces of two memory snapshots: of a program on a GPU, and of the same program
// on the virtual device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"
#include "reports/events/places.h"

namespace tidemark {

struct TraceDifference {
  std::size_t event = 0;            // in the trace
  std::string first, second;        // what each has there
  std::vector<std::string> frames;  // "A: forward (model.py:12)", innermost first
};
struct TraceComparison {
  std::size_t events = 0;                    // of the first trace
  std::optional<TraceDifference> different;  // in action, size or stream
  /// The first difference between the events of blocks alone: segments depend on addresses too.
  std::optional<TraceDifference> blocks_differ;
  /// Frees in another order, in runs of frees of the same blocks: the order in which a program
  /// lets go of them at once may be that of host pointers.
  std::size_t turned = 0;
  std::size_t segments[2]{};   // at the end
  std::int64_t reserved[2]{};  // bytes of them
  bool same_segments = false;  // of the same sizes
  SamePlaces places;           // before the first difference between blocks
  int exit_code() const { return different ? 1 : 0; }
  std::string text(const std::string& first, const std::string& second) const;
};

/// Streams are numbered in the order of their first use. `device` is that of files with several
/// traces. Throws SnapshotError, with the file's name, where one has no trace, or several and no
/// device.
TraceComparison compare_traces(const Snapshot& first, const std::string& first_name,
                               const Snapshot& second, const std::string& second_name,
                               std::optional<std::size_t> device = {});

}  // namespace tidemark
