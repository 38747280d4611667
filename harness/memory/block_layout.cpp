#include "harness/memory/block_layout.h"

#include <algorithm>
#include <iterator>

namespace tidemark {
namespace {

constexpr Bytes kSmall = 1 << 20;  // kSmallSize of CUDACachingAllocator: the small pool's largest

}  // namespace

void BlockLayout::apply(const AllocatorEvent& change) {
  switch (change.action) {
    case AllocatorAction::alloc:
      blocks_[change.address] = {change.address, change.block, change.size, BlockState::allocated,
                                 change.stack};
      return set_pool(change.address, change.size <= kSmall);
    case AllocatorAction::free_requested:
      if (auto block = blocks_.find(change.address); block != blocks_.end())
        block->second.state = BlockState::pending_free;
      return;
    case AllocatorAction::free_completed:
      blocks_.erase(change.address);
      return;
    case AllocatorAction::segment_alloc:
      segments_[change.address] = {change.size, change.stream, false, false};
      return;
    case AllocatorAction::segment_free:
      segments_.erase(change.address);
      return;
    case AllocatorAction::segment_map:
      return add_mapped(change.address, change.size, change.stream);
    case AllocatorAction::segment_unmap:
      return remove_mapped(change.address, change.size);
    case AllocatorAction::snapshot:
    case AllocatorAction::oom:
      return;
  }
}

bool BlockLayout::has_block_at(std::int64_t address) const {
  const auto after = blocks_.upper_bound(address);
  return after != blocks_.begin() &&
         address < std::prev(after)->first + std::max<Bytes>(std::prev(after)->second.size, 1);
}

void BlockLayout::set_pool(std::int64_t address, bool small) {
  if (auto after = segments_.upper_bound(address); after != segments_.begin())
    std::prev(after)->second.small = small;
}

// Memory that is mapped end to end for one stream is one segment, as in snapshots.
void BlockLayout::add_mapped(std::int64_t address, Bytes bytes, std::int64_t stream) {
  join_mapped(segments_.insert_or_assign(address, Reserved{bytes, stream, true, false}).first);
}

void BlockLayout::join_mapped(std::map<std::int64_t, Reserved>::iterator at) {
  const auto joins = [](const auto& low, const auto& high) {
    return low.second.mapped && high.second.mapped && low.second.stream == high.second.stream &&
           low.second.owner == high.second.owner && low.first + low.second.bytes == high.first;
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
    segments_[begin] = {address - begin, whole.stream, whole.mapped, whole.small, whole.owner};
  if (last < end)
    segments_[last] = {end - last, whole.stream, whole.mapped, whole.small, whole.owner};
}

void BlockLayout::set_owner(std::int64_t address, PoolId pool) {
  const auto at = segments_.find(address);
  if (at == segments_.end()) {
    // What was mapped there has been joined to what lies before it, of the same pool or of none.
    auto before = segments_.upper_bound(address);
    if (before == segments_.begin()) return;
    --before;
    const Bytes head = address - before->first;
    if (!before->second.mapped || head >= before->second.bytes || before->second.owner == pool)
      return;
    Reserved rest = before->second;
    rest.bytes -= head, rest.owner = pool;
    before->second.bytes = head;
    join_mapped(segments_.insert_or_assign(address, rest).first);
    return;
  }
  at->second.owner = pool;
  if (at->second.mapped) join_mapped(at);
}

Bytes BlockLayout::free_in(std::optional<PoolId> pool) const {
  Bytes out = 0;
  for (const auto& [address, reserved] : segments_) {
    if (pool ? reserved.owner != *pool : reserved.owner == PoolId{}) continue;
    out += reserved.bytes;
    for (auto block = blocks_.lower_bound(address);
         block != blocks_.end() && block->first < address + reserved.bytes; ++block)
      out -= block->second.size;
  }
  return out;
}

Segment BlockLayout::cut(std::int64_t address, const Reserved& reserved) const {
  Segment out{.address = address,
              .total_size = reserved.bytes,
              .stream = reserved.stream,
              .type = reserved.small ? "small" : "large",
              .pool = reserved.owner};
  std::int64_t at = address;
  const auto skip_to = [&](std::int64_t next) {
    if (next > at) out.blocks.push_back({at, next - at, 0, BlockState::inactive});
    at = std::max(at, next);
  };
  for (auto block = blocks_.lower_bound(address);
       block != blocks_.end() && block->first < address + reserved.bytes; ++block) {
    skip_to(block->first);
    out.blocks.push_back(block->second);
    at += block->second.size;
  }
  skip_to(address + reserved.bytes);
  return out;
}

std::vector<Segment> BlockLayout::segments() const {
  std::vector<Segment> out;
  for (const auto& [address, reserved] : segments_) out.push_back(cut(address, reserved));
  return out;
}

}  // namespace tidemark
