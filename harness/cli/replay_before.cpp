#include "harness/cli/replay_before.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "harness/memory/error.h"

namespace tidemark {
namespace {

constexpr std::int64_t kLargePage = 20 << 20;  // is mapped at once
constexpr std::int64_t kLargestSmall = ReplayedAllocator::kLargestSmall;

bool is_free(const MemoryBlock& block) { return block.state == BlockState::inactive; }
std::int64_t end_of(const Segment& s) { return s.address + s.total_size; }

/// Memory of one expandable segment: what of it is mapped, by address.
using Expandable = std::vector<const Segment*>;

std::map<std::tuple<PoolId, std::int64_t, std::string>, Expandable> expandables(
    const MemoryBefore& before) {
  std::map<std::tuple<PoolId, std::int64_t, std::string>, Expandable> out;
  for (const Segment& s : before.segments)
    if (s.expandable) out[{s.pool, s.stream, s.type}].push_back(&s);
  return out;
}

/// The lowest address of an expandable segment that is seen while any of it is mapped. Nothing
/// below is mapped before: the allocator maps the lowest address that has room.
std::int64_t lowest(const Expandable& parts, const MemoryBefore& before,
                    const std::vector<AllocatorEvent>& trace) {
  std::int64_t low = parts.front()->address, high = end_of(*parts.back()), mapped = 0;
  for (const Segment* part : parts) mapped += part->total_size;
  const auto of_this = [&](std::size_t i) {
    const AllocatorEvent& e = trace[i];
    if (low <= e.address && e.address < high) return true;
    const Home& home = before.homes.at(i);
    if (home.known && home.pool != parts.front()->pool) return false;
    for (; i < trace.size() && trace[i].action != AllocatorAction::alloc; ++i) {
    }
    return i < trace.size() && (trace[i].size <= kLargestSmall) == (parts.front()->type == "small");
  };
  for (std::size_t i = 0; i < trace.size() && mapped > 0; ++i) {
    const AllocatorEvent& e = trace[i];
    if (e.stream != parts.front()->stream) continue;
    if (e.action == AllocatorAction::segment_map && of_this(i)) {
      low = std::min(low, e.address), high = std::max(high, e.address + e.size);
      mapped += e.size;
    } else if (e.action == AllocatorAction::segment_unmap && low <= e.address && e.address < high) {
      mapped -= e.size;
    }
  }
  return low;
}

class Building {
 public:
  explicit Building(ReplayedAllocator& allocator) : allocator_(allocator) {}

  LiveBlocks run(const MemoryBefore& before, const std::vector<AllocatorEvent>& trace) {
    // At first nothing that is there is free.
    std::vector<std::vector<void*>> whole;
    for (const Segment& segment : before.segments) {
      if (segment.expandable) continue;
      allocator_.place(segment.address);
      whole.push_back(take(segment, segment.address, segment.total_size));
      if (const auto made = allocator_.made();
          made.size() != 1 || made[0].size != segment.total_size)
        throw SnapshotError(fmt::format("has a {} segment of {} bytes, which PyTorch does not make",
                                        segment.type, segment.total_size));
    }
    std::vector<void*> gaps;
    for (const auto& [kind, parts] : expandables(before))
      fill(parts, lowest(parts, before, trace), gaps);
    for (void* block : gaps) allocator_.give(block);
    if (!gaps.empty()) allocator_.release();
    // One segment after the other is freed and divided.
    std::size_t next = 0;
    for (const Segment& segment : before.segments) {
      if (segment.expandable) continue;
      for (void* block : whole[next++]) allocator_.give(block);
      divide(segment);
      shorten();
    }
    for (void* block : free_) allocator_.give(block);
    allocator_.made();
    return std::move(live_);
  }

 private:
  /// Maps an expandable segment from `at` to its end. What lies in `gaps` is to be unmapped.
  void fill(const Expandable& parts, std::int64_t at, std::vector<void*>& gaps) {
    const std::int64_t first = head(*parts.front());
    if (at == parts.front()->address && first > 0) at -= kLargePage;  // which was unmapped
    allocator_.place(at);
    for (const Segment* part : parts) {
      const std::int64_t from = part->address + head(*part);
      if (at < from && part->pool != PoolId{})
        throw SnapshotError(
            "has an expandable segment of a private pool with gaps before its trace, which is not "
            "built");
      const auto gap = take(*part, at, from - at);
      gaps.insert(gaps.end(), gap.begin(), gap.end());
      divide(*part);
      at = end_of(*part);
    }
    shorten();
  }

  /// Takes the blocks of a segment, in which nothing else is. A free block that is too short to be
  /// taken by itself belongs to the block before it, until shorten().
  void divide(const Segment& segment) {
    for (std::size_t i = head(segment) > 0 ? 1 : 0; i < segment.blocks.size(); ++i) {
      const MemoryBlock& block = segment.blocks[i];
      const std::int64_t rest = rest_behind(segment, i);
      const auto made = take(segment, block.address, block.size + rest);
      if (is_free(block)) {
        free_.insert(free_.end(), made.begin(), made.end());
        continue;
      }
      live_[block.address] = made[0];
      if (rest == 0) continue;
      too_long_.emplace_back(&segment, &block);
      ++i;
    }
  }
  void shorten() {
    for (const auto& [segment, block] : too_long_) {
      allocator_.give(live_[block->address]);
      live_[block->address] = take(*segment, block->address, block->size, true)[0];
    }
    too_long_.clear();
  }

  /// Free memory of a segment for large blocks that is too short to be taken by itself: at its
  /// begin, where memory below was unmapped.
  static std::int64_t head(const Segment& segment) {
    const MemoryBlock& first = segment.blocks.front();
    return segment.expandable && segment.type == "large" && is_free(first) &&
                   first.size <= kLargestSmall
               ? first.size
               : 0;
  }
  /// Such memory behind an allocated block.
  static std::int64_t rest_behind(const Segment& segment, std::size_t block) {
    if (segment.type == "small" || block + 1 == segment.blocks.size() ||
        is_free(segment.blocks[block]))
      return 0;
    const MemoryBlock& next = segment.blocks[block + 1];
    return is_free(next) && next.size <= kLargestSmall ? next.size : 0;
  }

  /// These bytes at this address, in blocks that the pool of the segment gives. `divides`: a short
  /// rest is split off in any segment, which PyTorch does while it makes expandable ones.
  std::vector<void*> take(const Segment& segment, std::int64_t address, std::int64_t bytes,
                          bool divides = false) {
    const std::int64_t most = segment.type == "small" ? kLargestSmall : bytes;
    std::vector<void*> out;
    for (std::int64_t at = 0; at < bytes; at += most) {
      out.push_back(allocator_.take({std::min(most, bytes - at), segment.stream, segment.pool,
                                     segment.expandable || divides}));
      if (allocator_.recorded(out.back()) != address + at)
        throw SnapshotError(fmt::format(
            "has a block of {} bytes at address {} before its trace that cannot be built", bytes,
            address));
    }
    return out;
  }

  ReplayedAllocator& allocator_;
  std::vector<void*> free_;
  std::vector<std::pair<const Segment*, const MemoryBlock*>> too_long_;
  LiveBlocks live_;
};

}  // namespace

LiveBlocks build(ReplayedAllocator& allocator, const MemoryBefore& before,
                 const std::vector<AllocatorEvent>& trace) {
  return Building(allocator).run(before, trace);
}

}  // namespace tidemark
