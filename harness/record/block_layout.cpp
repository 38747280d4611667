#include "harness/record/block_layout.h"

#include <algorithm>
#include <numeric>

namespace tidemark {
namespace {

constexpr Bytes kSmall = 1 << 20;  // kSmallSize of CUDACachingAllocator: the small pool's largest

}  // namespace

void BlockLayout::apply(const BlockChange& change) {
  switch (change.action) {
    case AllocatorAction::alloc:
      blocks_[change.address] = {change.block, change.bytes, change.owner, false};
      return set_pool(change.address, change.bytes <= kSmall);
    case AllocatorAction::free_requested:
      if (auto found = blocks_.find(change.address); found != blocks_.end())
        found->second.pending = true;
      return;
    case AllocatorAction::free_completed:
      blocks_.erase(change.address);
      return;
    case AllocatorAction::segment_alloc:
      segments_[change.address] = {change.bytes, change.stream, false, false};
      return;
    case AllocatorAction::segment_free:
      segments_.erase(change.address);
      return;
    case AllocatorAction::segment_map:
      return add_mapped(change.address, change.bytes, change.stream);
    case AllocatorAction::segment_unmap:
      return remove_mapped(change.address, change.bytes);
    case AllocatorAction::snapshot:
    case AllocatorAction::oom:
      return;
  }
}

void BlockLayout::set_pool(std::int64_t address, bool small) {
  if (auto after = segments_.upper_bound(address); after != segments_.begin())
    std::prev(after)->second.small = small;
}

// Memory that is mapped end to end for one stream is one segment, as in snapshots.
void BlockLayout::add_mapped(std::int64_t address, Bytes bytes, std::uint32_t stream) {
  auto at = segments_.insert_or_assign(address, Reserved{bytes, stream, true, false}).first;
  const auto joins = [](const auto& low, const auto& high) {
    return low.second.mapped && high.second.mapped && low.second.stream == high.second.stream &&
           low.first + low.second.bytes == high.first;
  };
  if (auto after = std::next(at); after != segments_.end() && joins(*at, *after)) {
    at->second.bytes += after->second.bytes;
    at->second.small = after->second.small;
    segments_.erase(after);
  }
  if (at == segments_.begin()) return;
  if (auto before = std::prev(at); joins(*before, *at)) {
    before->second.bytes += at->second.bytes;
    segments_.erase(at);
  }
}

void BlockLayout::remove_mapped(std::int64_t address, Bytes bytes) {
  auto at = segments_.upper_bound(address);
  if (at == segments_.begin()) return;
  --at;
  const auto [begin, whole] = *at;
  const std::int64_t end = begin + whole.bytes, last = std::min(address + bytes, end);
  if (address >= end) return;
  segments_.erase(at);
  if (address > begin)
    segments_[begin] = {address - begin, whole.stream, whole.mapped, whole.small};
  if (last < end) segments_[last] = {end - last, whole.stream, whole.mapped, whole.small};
}

Segment BlockLayout::cut(std::int64_t address, const Reserved& reserved,
                         const std::vector<std::string>& streams) const {
  Segment out{
      address, reserved.bytes, streams.at(reserved.stream), reserved.small ? "small" : "large", {}};
  Bytes at = 0;
  const auto skip_to = [&](Bytes offset) {
    if (offset > at) out.parts.push_back({at, offset - at, 0, BlockState::inactive});
    at = std::max(at, offset);
  };
  for (auto block = blocks_.lower_bound(address);
       block != blocks_.end() && block->first < address + reserved.bytes; ++block) {
    skip_to(block->first - address);
    const auto& [bytes, requested, owner, pending] = block->second;
    out.parts.push_back(
        {at, bytes, requested, pending ? BlockState::pending_free : BlockState::allocated});
    at += bytes;
  }
  skip_to(reserved.bytes);
  return out;
}

MemoryMap BlockLayout::map(const std::vector<std::string>& streams, std::size_t most) const {
  MemoryMap out;
  std::size_t count = 0;
  for (const auto& [address, reserved] : segments_) {
    out.segments.push_back(cut(address, reserved, streams));
    count += out.segments.back().parts.size();
  }
  if (count <= most) return out;
  std::vector<std::size_t> order(out.segments.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return out.segments[i].bytes; });
  for (std::size_t i : order) {
    if (count <= most) break;
    Segment& smallest = out.segments[i];
    count -= smallest.parts.size();
    ++out.left_out;
    out.left_out_bytes += smallest.bytes;
    smallest.parts.clear();
  }
  std::erase_if(out.segments, [](const Segment& segment) { return segment.parts.empty(); });
  return out;
}

}  // namespace tidemark
