#include "harness/memory/walk.h"

#include <algorithm>
#include <unordered_set>

namespace tidemark {

std::vector<BlockBefore> blocks_before(const Snapshot& snapshot, std::size_t device) {
  std::map<std::int64_t, BlockBefore> out;
  std::unordered_set<std::int64_t> seen;  // addresses whose first event has passed
  if (device < snapshot.traces.size())
    for (const AllocatorEvent& e : snapshot.traces[device])
      if (of_block(e.action) && seen.insert(e.address).second && e.action != AllocatorAction::alloc)
        out[e.address] = {.address = e.address,
                          .bytes = e.size,
                          .freed = e.action == AllocatorAction::free_completed};
  for (const Segment& segment : snapshot.segments) {
    if (static_cast<std::size_t>(segment.device) != device) continue;
    for (const MemoryBlock& block : segment.blocks)
      if (block.state != BlockState::inactive && !seen.contains(block.address))
        out[block.address] = {block.address, block.requested, block.size, block.stack,
                              block.state == BlockState::pending_free};
  }
  std::vector<BlockBefore> blocks;
  for (auto& [address, block] : out) blocks.push_back(block);
  return blocks;
}

bool TraceWalk::next() {
  if (taken_ == trace_.size()) return false;
  const AllocatorEvent& event = trace_[taken_];
  if (event.action == AllocatorAction::alloc) {
    live_[event.address] = taken_;
    active_ += event.size;
    ++moment_.allocations;
  } else if (event.action == AllocatorAction::free_requested) {
    freed_.insert(event.address);
  } else if (event.action == AllocatorAction::free_completed) {
    freed_.erase(event.address);
    active_ -= live_.erase(event.address) > 0 ? event.size : 0;
    ++moment_.frees;
  }
  ++taken_;
  return true;
}

bool TraceWalk::holds(std::size_t block) const { return block_of(trace_[block].address) == block; }

std::optional<std::size_t> TraceWalk::block_of(std::int64_t address) const {
  const auto block = live_.find(address);
  if (block == live_.end()) return {};
  return block->second;
}

std::optional<std::size_t> TraceWalk::block_at(std::int64_t address) const {
  const auto after = live_.upper_bound(address);
  if (after == live_.begin()) return {};
  const auto& [begin, block] = *std::prev(after);
  if (address >= begin + std::max<std::int64_t>(trace_[block].size, 1)) return {};
  return block;
}

std::vector<std::size_t> TraceWalk::freed() const {
  std::vector<std::size_t> blocks;
  for (const std::int64_t address : freed_)
    if (const auto block = block_of(address)) blocks.push_back(*block);
  return blocks;
}

}  // namespace tidemark
