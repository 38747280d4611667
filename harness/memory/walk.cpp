#include "harness/memory/walk.h"

#include <algorithm>

namespace tidemark {

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
