#include "reports/snapshot/rewind.h"

#include <fmt/format.h>

#include <iterator>
#include <map>

namespace tidemark {
namespace {

constexpr std::int64_t kGranule = 512,
                       kSmallest = 1 << 20;  // of a rest in a segment for large blocks

struct Piece {
  std::int64_t size, requested;
  bool free;
};

struct Rewound {
  SnapshotSegment segment;  // its blocks are in `pieces`
  std::map<std::int64_t, Piece> pieces;

  void merge(std::map<std::int64_t, Piece>::iterator at) {
    if (const auto next = std::next(at); next != pieces.end() && next->second.free) {
      at->second.size += next->second.size;
      pieces.erase(next);
    }
    if (at == pieces.begin()) return;
    const auto before = std::prev(at);
    if (!before->second.free) return;
    before->second.size += at->second.size;
    pieces.erase(at);
  }
};

class Rewinding {
 public:
  explicit Rewinding(const Snapshot& snapshot) {
    for (const SnapshotSegment& segment : snapshot.segments) {
      if (segment.expandable)
        throw SnapshotError("has expandable segments, whose mappings are not followed");
      if (segment.pool != std::array<std::int64_t, 2>{0, 0})
        throw SnapshotError("has segments of a private pool (CUDA graphs), which are not followed");
      Rewound& out = add(segment);
      out.pieces.clear();
      for (const SnapshotBlock& block : segment.blocks) {
        const bool free = block.state == BlockState::inactive;
        const Piece piece{block.size, block.requested, free};
        const auto at = out.pieces.insert_or_assign(block.address, piece).first;
        if (free) out.merge(at);
      }
    }
  }

  void undo(const TraceEvent& e) {
    switch (e.action) {
      case Action::alloc:
        return undo_alloc(e);
      case Action::free_completed:
        return undo_free(e);
      case Action::segment_alloc: {
        const auto found = segments_.find(e.address);
        if (found == segments_.end() || found->second.pieces.size() != 1 ||
            !found->second.pieces.begin()->second.free)
          throw SnapshotError("allocates a segment that is not there, or not free, afterwards");
        segments_.erase(found);
        return;
      }
      case Action::segment_free:
        add({.address = e.address,
             .total_size = e.size,
             .stream = e.stream,
             .type = e.size == 2 * kSmallest ? "small" : "large"});
        return;
      case Action::segment_map:
      case Action::segment_unmap:
        throw SnapshotError("is of an expandable segment, whose mappings are not followed");
      case Action::free_requested:
      case Action::snapshot:
      case Action::oom:
        return;
    }
  }

  std::vector<SnapshotSegment> segments() && {
    std::vector<SnapshotSegment> out;
    for (auto& [address, each] : segments_) {
      each.segment.blocks.clear();
      for (const auto& [at, piece] : each.pieces)
        each.segment.blocks.push_back({at, piece.size, piece.requested,
                                       piece.free ? BlockState::inactive : BlockState::allocated});
      out.push_back(std::move(each.segment));
    }
    return out;
  }

 private:
  Rewound& add(SnapshotSegment segment) {
    const std::int64_t address = segment.address, size = segment.total_size;
    const auto next = segments_.lower_bound(address);
    const bool overlaps =
        (next != segments_.end() && next->first < address + size) ||
        (next != segments_.begin() &&
         std::prev(next)->first + std::prev(next)->second.segment.total_size > address);
    if (overlaps) throw SnapshotError(fmt::format("has two segments at address {}", address));
    Rewound& out = segments_[address];
    out.segment = std::move(segment);
    out.pieces[address] = {size, 0, true};
    return out;
  }

  Rewound& around(std::int64_t address) {
    auto found = segments_.upper_bound(address);
    if (found == segments_.begin()) throw SnapshotError("is in no segment");
    --found;
    if (address >= found->first + found->second.segment.total_size)
      throw SnapshotError("is in no segment");
    return found->second;
  }

  void undo_alloc(const TraceEvent& e) {
    Rewound& in = around(e.address);
    const auto at = in.pieces.find(e.address);
    if (at == in.pieces.end() || at->second.free)
      throw SnapshotError("allocates a block that is not there afterwards");
    at->second = {at->second.size, 0, true};
    in.merge(at);
  }

  void undo_free(const TraceEvent& e) {
    Rewound& in = around(e.address);
    const auto hole = std::prev(in.pieces.upper_bound(e.address));
    const std::int64_t end = hole->first + hole->second.size;
    std::int64_t size = (e.size + kGranule - 1) / kGranule * kGranule;
    if (!hole->second.free || e.address + size > end)
      throw SnapshotError("frees a block where another one is afterwards");
    if (in.segment.type == "large" && end - e.address - size <= kSmallest) size = end - e.address;
    if (hole->first < e.address)
      hole->second.size = e.address - hole->first;
    else
      in.pieces.erase(hole);
    in.pieces[e.address] = {size, e.size, false};
    if (e.address + size < end) in.pieces[e.address + size] = {end - e.address - size, 0, true};
  }

  std::map<std::int64_t, Rewound> segments_;
};

}  // namespace

const std::vector<TraceEvent>& only_trace(const Snapshot& snapshot) {
  const std::vector<TraceEvent>* only = nullptr;
  std::size_t devices = 0;
  for (const auto& trace : snapshot.traces) {
    if (trace.empty()) continue;
    only = &trace;
    ++devices;
  }
  if (devices > 1)
    throw SnapshotError(fmt::format("has the traces of {} devices: record one device", devices));
  if (only == nullptr)
    throw SnapshotError("has no trace: record with torch.cuda.memory._record_memory_history()");
  return *only;
}

std::vector<SnapshotSegment> segments_before(const Snapshot& snapshot) {
  const auto& trace = only_trace(snapshot);
  Rewinding rewinding(snapshot);
  for (std::size_t i = trace.size(); i-- > 0;) {
    try {
      rewinding.undo(trace[i]);
    } catch (const SnapshotError& error) {
      throw SnapshotError(fmt::format("event {} of the trace ({} of {} bytes) {}", i,
                                      name_of(trace[i].action), trace[i].size, error.what()));
    }
  }
  return std::move(rewinding).segments();
}

}  // namespace tidemark
