#include "reports/snapshot/rewind.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace tidemark {
namespace {

constexpr std::int64_t kGranule = 512,
                       kSmallest = 1 << 20;  // of a rest in a segment for large blocks

using Blocks = std::vector<SnapshotBlock>;

bool is_free(const SnapshotBlock& block) { return block.state == BlockState::inactive; }

/// Frees the block: it is one with the free ones beside it.
void give_back(Blocks& blocks, Blocks::iterator at) {
  *at = {at->address, at->size};
  if (const auto next = std::next(at); next != blocks.end() && is_free(*next)) {
    at->size += next->size;
    blocks.erase(next);
  }
  if (at == blocks.begin() || !is_free(*std::prev(at))) return;
  std::prev(at)->size += at->size;
  blocks.erase(at);
}

class Rewinding {
 public:
  explicit Rewinding(const Snapshot& snapshot) {
    for (const SnapshotSegment& segment : snapshot.segments) {
      if (segment.expandable)
        throw SnapshotError("has expandable segments, whose mappings are not followed");
      if (segment.pool != std::array<std::int64_t, 2>{0, 0})
        throw SnapshotError("has segments of a private pool (CUDA graphs), which are not followed");
      Blocks& blocks = add(segment).blocks;
      blocks.clear();
      for (const SnapshotBlock& block : segment.blocks) {
        blocks.push_back({block.address, block.size, block.requested, BlockState::allocated});
        if (is_free(block)) give_back(blocks, std::prev(blocks.end()));
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
        if (found == segments_.end() || found->second.blocks.size() != 1 ||
            !is_free(found->second.blocks[0]))
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
    for (auto& [address, each] : segments_) out.push_back(std::move(each));
    return out;
  }

 private:
  SnapshotSegment& add(SnapshotSegment segment) {
    const std::int64_t address = segment.address, size = segment.total_size;
    const auto next = segments_.lower_bound(address);
    const bool overlaps = (next != segments_.end() && next->first < address + size) ||
                          (next != segments_.begin() &&
                           std::prev(next)->first + std::prev(next)->second.total_size > address);
    if (overlaps) throw SnapshotError(fmt::format("has two segments at address {}", address));
    SnapshotSegment& out = segments_[address] = std::move(segment);
    out.blocks = {{address, size}};
    return out;
  }

  SnapshotSegment& around(std::int64_t address) {
    auto found = segments_.upper_bound(address);
    if (found == segments_.begin()) throw SnapshotError("is in no segment");
    --found;
    if (address >= found->first + found->second.total_size) throw SnapshotError("is in no segment");
    return found->second;
  }

  void undo_alloc(const TraceEvent& e) {
    Blocks& blocks = around(e.address).blocks;
    const auto at = std::ranges::find(blocks, e.address, &SnapshotBlock::address);
    if (at == blocks.end() || is_free(*at))
      throw SnapshotError("allocates a block that is not there afterwards");
    give_back(blocks, at);
  }

  void undo_free(const TraceEvent& e) {
    SnapshotSegment& in = around(e.address);
    auto at =
        std::prev(std::ranges::upper_bound(in.blocks, e.address, {}, &SnapshotBlock::address));
    const std::int64_t end = at->address + at->size;
    std::int64_t size = (e.size + kGranule - 1) / kGranule * kGranule;
    if (!is_free(*at) || e.address + size > end)
      throw SnapshotError("frees a block where another one is afterwards");
    if (in.type == "large" && end - e.address - size <= kSmallest) size = end - e.address;
    const std::int64_t rest = end - e.address - size;
    at->size = e.address - at->address;
    if (at->size > 0) at = in.blocks.insert(std::next(at), SnapshotBlock{});
    *at = {e.address, size, e.size, BlockState::allocated};
    if (rest > 0) in.blocks.insert(std::next(at), {e.address + size, rest});
  }

  std::map<std::int64_t, SnapshotSegment> segments_;
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
