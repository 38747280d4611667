// What the memory snapshots of a program say of its devices, the answer first: which rank ran out
// of memory, what its memory was made of, and what would have fitted.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"
#include "harness/memory/growth.h"
#include "harness/memory/picture.h"
#include "harness/memory/snapshot.h"
#include "reports/html.h"

namespace tidemark {

/// A private pool of the allocator at the end of the file: of a CUDA graph, or of several that
/// share one, or a MemPool.
struct PoolRow {
  PoolId pool{};
  Bytes reserved = 0, in_use = 0;
};

struct ExplainedDevice {
  std::string file;        // as it was given
  std::string name;        // "rank 3", "rank 3 cuda:1", "dump"
  DeviceSummary device;    // its curve is left out
  std::string phase;       // "in backward of step 2": where memory ran out, or the peak is
  Ns out_at = 0;           // when memory ran out; 0: it did not, or the file has no times
  std::int64_t steps = 0;  // that the history shows
  Bytes most_reserved = 0;
  std::optional<StepGrowth> growth;
  std::vector<std::string> limits;  // what cannot be known
  std::vector<PoolRow> pools;
  std::string host;       // of pinned memory of the host; empty: it was not recorded
  std::string settings;   // of the allocator, as recorded
  std::string next_line;  // "model.py:88": of the activations with most bytes; empty: none known
  MemoryPicture picture;  // thinned; for the page
};

/// The devices of a file that have a segment or an event, or that one. Gives the snapshot back.
/// Throws SnapshotError where a trace contradicts itself.
/// `pictures`: of the moments that a page holds; else none are kept.
std::vector<ExplainedDevice> explain(Snapshot snapshot, const std::string& file,
                                     std::optional<std::size_t> device, bool pictures);

/// The device that ran out of memory first, or else has the highest peak; nullptr of none.
const ExplainedDevice* first_of(const std::vector<ExplainedDevice>& all);

/// The sentences of all devices: limits, the answer, what it is made of, growth, how the ranks
/// differ, private pools, and memory of the host.
std::vector<std::string> explanation(const std::vector<ExplainedDevice>& all);

/// A row for each device; the first is the header. None with one device.
std::vector<std::vector<std::string>> devices_table(const std::vector<ExplainedDevice>& all);

}  // namespace tidemark
