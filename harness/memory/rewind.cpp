#include "harness/memory/rewind.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <set>

namespace tidemark {
namespace {

constexpr std::int64_t kGranule = 512,
                       kSmallest = 1 << 20;  // of a rest in a segment for large blocks, which is
constexpr std::int64_t kSmallSegment = 2 * kSmallest;  // also the largest of the small blocks
constexpr std::int64_t kLargePage = 20 * kSmallest;
constexpr PoolId kUnknown{-1, -1};

using Blocks = std::vector<MemoryBlock>;

bool is_free(const MemoryBlock& block) { return block.state == BlockState::inactive; }

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

std::int64_t end_of(const Segment& s) { return s.address + s.total_size; }

class Rewinding {
 public:
  Rewinding(const Snapshot& snapshot, std::size_t device) : trace_(snapshot.traces[device]) {
    for (const Segment& segment : snapshot.segments) {
      if (static_cast<std::size_t>(segment.device) != device) continue;
      has_pools_ |= segment.pool != PoolId{};
      Blocks& blocks = add(segment).blocks;
      blocks.clear();
      for (const MemoryBlock& block : segment.blocks) {
        blocks.push_back({block.address, block.size, block.requested, BlockState::allocated});
        if (is_free(block)) give_back(blocks, std::prev(blocks.end()));
      }
    }
  }

  void undo(std::size_t event) {
    const AllocatorEvent& e = trace_[event];
    switch (e.action) {
      case AllocatorAction::alloc:
        return undo_alloc(event);
      case AllocatorAction::free_completed:
        return undo_free(e);
      case AllocatorAction::segment_alloc:
        return undo_segment(event);
      case AllocatorAction::segment_map:
        return undo_map(event);
      case AllocatorAction::segment_free:
        add({.address = e.address,
             .total_size = e.size,
             .stream = e.stream,
             .type = e.size == kSmallSegment ? "small" : "large",
             .pool = kUnknown});
        return note(event, segments_.at(e.address));
      case AllocatorAction::segment_unmap:
        undo_unmap(e);
        return note(event, around(e.address)->second);
      case AllocatorAction::free_requested:
      case AllocatorAction::snapshot:
      case AllocatorAction::oom:
        return;
    }
  }

  MemoryBefore result() && {
    for (auto& [address, each] : segments_) {
      if (each.type.empty()) each.type = type_of(each);
      if (each.pool == kUnknown) {
        if (each.expandable && has_pools_)
          throw SnapshotError(
              "has private pools, and memory of expandable segments before its trace of which "
              "nothing says whose it was: record from the beginning of the program");
        each.pool = {};
      }
      out_.segments.push_back(std::move(each));
    }
    out_.unsure = unsure_.size();
    return std::move(out_);
  }

 private:
  using Segments = std::map<std::int64_t, Segment>;

  /// One that is free.
  Segment& add(Segment segment) {
    const std::int64_t address = segment.address, size = segment.total_size;
    const auto next = segments_.lower_bound(address);
    const bool overlaps = (next != segments_.end() && next->first < address + size) ||
                          (next != segments_.begin() && end_of(std::prev(next)->second) > address);
    if (overlaps) throw SnapshotError(fmt::format("has two segments at address {}", address));
    Segment& out = segments_[address] = std::move(segment);
    out.blocks = {{address, size}};
    return out;
  }

  Segments::iterator around(std::int64_t address) {
    auto segment = segments_.upper_bound(address);
    if (segment == segments_.begin()) throw SnapshotError("is in no segment");
    --segment;
    if (address >= end_of(segment->second)) throw SnapshotError("is in no segment");
    return segment;
  }

  void note(std::size_t event, const Segment& in) {
    const bool known = in.pool != kUnknown;
    out_.homes[event] = {known ? in.pool : PoolId{}, known, in.expandable};
  }

  void undo_alloc(std::size_t event) {
    const AllocatorEvent& e = trace_[event];
    Segment& in = around(e.address)->second;
    Blocks& blocks = in.blocks;
    const auto at = std::ranges::lower_bound(blocks, e.address, {}, &MemoryBlock::address);
    if (at == blocks.end() || at->address != e.address || is_free(*at) || at->size < e.size)
      throw SnapshotError("allocates a block that is not there afterwards");
    unsure_.erase(e.address);
    note(event, in);
    give_back(blocks, at);
  }

  void undo_free(const AllocatorEvent& e) {
    Segment& in = around(e.address)->second;
    auto at = std::prev(std::ranges::upper_bound(in.blocks, e.address, {}, &MemoryBlock::address));
    const std::int64_t end = at->address + at->size;
    std::int64_t size = std::max(kGranule, (e.size + kGranule - 1) / kGranule * kGranule);
    if (!is_free(*at) || e.address + size > end)
      throw SnapshotError("frees a block where another one is afterwards");
    if (!in.expandable && in.type == "large") {  // elsewhere every rest is split off
      if (end - e.address - size <= kSmallest)
        size = end - e.address;
      else
        unsure_.insert(e.address);
    }
    const std::int64_t rest = end - e.address - size;
    at->size = e.address - at->address;
    if (at->size > 0) at = in.blocks.insert(std::next(at), MemoryBlock{});
    *at = {e.address, size, e.size, BlockState::allocated};
    if (rest > 0) in.blocks.insert(std::next(at), {e.address + size, rest});
  }

  void undo_segment(std::size_t event) {
    const AllocatorEvent& e = trace_[event];
    const auto segment = segments_.find(e.address);
    if (segment == segments_.end() || segment->second.blocks.size() != 1 ||
        !is_free(segment->second.blocks[0]) || segment->second.total_size != e.size)
      throw SnapshotError("allocates a segment that is not there, or not free, afterwards");
    note(event, segment->second);
    segments_.erase(segment);
  }

  /// Memory that is mapped before and behind the range stays.
  void undo_map(std::size_t event) {
    const AllocatorEvent& e = trace_[event];
    const auto segment = around(e.address);
    note(event, segment->second);
    const std::int64_t end = e.address + e.size;
    Segment below = std::move(segment->second), above = below;
    const auto free = std::ranges::find_if(below.blocks, [&](const MemoryBlock& b) {
      return is_free(b) && b.address <= e.address && end <= b.address + b.size;
    });
    if (!below.expandable || free == below.blocks.end())
      throw SnapshotError("maps memory that is not there, or not free, afterwards");
    const auto place = free - below.blocks.begin();
    const std::int64_t free_end = free->address + free->size;
    above.address = end, above.total_size = end_of(below) - end;
    above.blocks.erase(above.blocks.begin(), above.blocks.begin() + place);
    above.blocks[0] = {end, free_end - end};
    if (free_end == end) above.blocks.erase(above.blocks.begin());
    below.total_size = e.address - below.address;
    free->size = e.address - free->address;
    below.blocks.erase(free->size > 0 ? std::next(free) : free, below.blocks.end());
    segments_.erase(segment);
    for (Segment* part : {&below, &above})
      if (part->total_size > 0) segments_[part->address] = std::move(*part);
  }

  void undo_unmap(const AllocatorEvent& e) {
    add({.address = e.address,
         .total_size = e.size,
         .stream = e.stream,
         .type = "",
         .expandable = true,
         .pool = kUnknown});
    const auto here = segments_.find(e.address);
    if (const auto next = std::next(here); next != segments_.end()) join(here, next);
    if (here != segments_.begin()) join(std::prev(here), here);
  }

  /// Makes one of two segments of an expandable one that touch.
  void join(Segments::iterator low, Segments::iterator high) {
    Segment &a = low->second, &b = high->second;
    const bool one_kind = a.type == b.type || a.type.empty() || b.type.empty();
    if (!a.expandable || !b.expandable || end_of(a) != b.address || a.stream != b.stream ||
        !one_kind)
      return;
    if (a.type.empty()) a.type = b.type;
    if (a.pool == kUnknown) a.pool = b.pool;
    a.total_size += b.total_size;
    const auto seam = std::ssize(a.blocks);
    a.blocks.insert(a.blocks.end(), b.blocks.begin(), b.blocks.end());
    if (is_free(a.blocks[static_cast<std::size_t>(seam)]))
      give_back(a.blocks, a.blocks.begin() + seam);
    segments_.erase(high);
  }

  /// The type of mapped memory that does not stay mapped, by the first block in it; without one by
  /// its size, since large blocks are mapped in pages of 20 MiB.
  std::string type_of(const Segment& segment) const {
    const auto first = std::ranges::find_if(trace_, [&](const AllocatorEvent& e) {
      return (of_block(e.action) || e.action == AllocatorAction::segment_unmap) &&
             segment.address <= e.address && e.address < end_of(segment);
    });
    const bool small = first != trace_.end() && of_block(first->action)
                           ? first->size <= kSmallest
                           : segment.total_size % kLargePage != 0;
    return small ? "small" : "large";
  }

  const std::vector<AllocatorEvent>& trace_;
  Segments segments_;
  bool has_pools_ = false;
  std::set<std::int64_t> unsure_;  // addresses
  MemoryBefore out_;
};

std::string devices_text(const std::vector<std::size_t>& devices) {
  return fmt::format("{}", fmt::join(devices, devices.size() == 2 ? " and " : ", "));
}

}  // namespace

std::vector<std::size_t> traced_devices(const Snapshot& snapshot) {
  std::vector<std::size_t> traced;
  for (std::size_t d = 0; d < snapshot.traces.size(); ++d)
    if (std::ranges::any_of(snapshot.traces[d], [](const AllocatorEvent& e) {
          return e.action != AllocatorAction::snapshot;
        }))
      traced.push_back(d);
  return traced;
}

std::size_t traced_device(const Snapshot& snapshot, std::optional<std::size_t> wished) {
  const auto traced = traced_devices(snapshot);
  if (traced.empty())
    throw SnapshotError("has no trace: record with torch.cuda.memory._record_memory_history()");
  if (!wished && traced.size() > 1)
    throw SnapshotError(fmt::format("has the traces of devices {}: choose one with --device",
                                    devices_text(traced)));
  if (wished && std::ranges::find(traced, *wished) == traced.end())
    throw SnapshotError(fmt::format("has no trace of device {}, but of {} {}", *wished,
                                    traced.size() == 1 ? "device" : "devices",
                                    devices_text(traced)));
  return wished.value_or(traced[0]);
}

MemoryBefore memory_before(const Snapshot& snapshot, std::size_t device) {
  const auto& trace = snapshot.traces[device];
  Rewinding rewinding(snapshot, device);
  for (std::size_t i = trace.size(); i-- > 0;) {
    try {
      rewinding.undo(i);
    } catch (const SnapshotError& error) {
      throw SnapshotError(fmt::format("event {} of the trace ({} of {} bytes) {}", i,
                                      name_of(trace[i].action), trace[i].size, error.what()));
    }
  }
  return std::move(rewinding).result();
}

}  // namespace tidemark
