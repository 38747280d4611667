// Memory of one device over the events of its trace, for the pictures of a program's page.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/analysis.h"
#include "harness/memory/call_tree.h"
#include "harness/memory/parts.h"
#include "harness/memory/segment_lives.h"

namespace tidemark {

/// Moments are numbered from 0, the begin of the trace. Bytes as requested.
struct MemoryPicture {
  /// A kind of tensor, a module with its numbers ("layers.3.up") and a line of Python.
  struct Place {
    MemoryKind kind = MemoryKind::other;
    std::string module, site;
    std::string file;  // of that line, as Python names it; empty: none
    std::int64_t line = 0;
    /// That line without the blanks around it; none: the file is not there, or newer.
    std::optional<std::string> source = {};
    Holder holder = {};  // of what a step leaves behind, where it was asked
    auto operator<=>(const Place&) const = default;
  };
  /// Alive at the moments from `from` to before `until`; freed and not yet given back from `waits`
  /// on. A block with `from` 0 was there before the trace began: it is of kind `before`, and its
  /// stack is known only where the snapshot has it among the blocks at the end.
  struct Block {
    std::size_t place = 0;  // in `places`
    std::int64_t bytes = 0;
    std::size_t from = 0, waits = 0, until = 0;
    std::int64_t address = 0;
    std::int64_t rest = 0;   // of the allocator's block beyond `bytes`: what it rounds up
    std::uint32_t call = 0;  // in `calls`, the innermost
  };
  struct Phase {
    std::string name;
    std::int64_t step = 0;         // 0: steps are not told apart
    std::size_t from = 0, to = 0;  // moments
  };
  std::string where;  // "rank0", the name of the snapshot
  std::size_t device = 0;
  std::int64_t in_all = 0;             // events of the trace
  std::vector<std::int64_t> events;    // taken until each moment
  std::vector<std::int64_t> reserved;  // at each moment
  std::size_t peak = 0;                // the moment at which active is highest
  /// The moment of a block that another run was refused (beyond.h), and its bytes; 0: none.
  std::size_t refused = 0;
  std::int64_t refused_bytes = 0;
  std::vector<Place> places;
  std::vector<Block> blocks;                     // by `from`
  std::vector<Phase> phases;                     // by `from`
  std::vector<PhasePeak> phase_peaks;            // of the device's summary
  CallTree calls;                                // of the blocks' allocations
  std::map<std::uint32_t, std::string> sources;  // of the frames of `calls`, known
  /// By `from`; at every moment they sum to `reserved`. Empty where the trace does not say.
  std::vector<SegmentLife> segments;
  std::vector<std::pair<std::int64_t, std::size_t>> left_steps;  // steps and where they begin
  std::size_t whole_from = 0;  // from this moment on no step is left out of the trace
};

/// The picture of a device with a moment after each event. `summary` is that of the device. Its
/// blocks sum to active at every moment. Without moments where nothing was allocated, and where the
/// trace contradicts the blocks at its end. Segments from before the trace are those that it leaves
/// when it is undone (rewind.h).
MemoryPicture picture_of(const Snapshot& snapshot, const DeviceSummary& summary);

/// Keeps at most `most` moments (but at least three): the first, the last, and of every stretch of
/// the others the one at which active is highest, and the refused one. Blocks that are alive at
/// none of them are left out.
MemoryPicture thinned(MemoryPicture picture, std::size_t most);

/// The sum of the blocks at each moment.
std::vector<std::int64_t> active_of(const MemoryPicture& picture);

/// The shortest phase at that moment; nullptr where there is none.
const MemoryPicture::Phase* phase_at(const MemoryPicture& picture, std::size_t moment);

}  // namespace tidemark
