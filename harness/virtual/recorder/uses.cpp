#include "harness/virtual/recorder/uses.h"

#include <algorithm>

namespace tidemark::recorder {

void Uses::before(const AllocatorEntry& entry) {
  const auto at = static_cast<std::uint64_t>(entry.addr_);
  const auto device = static_cast<std::size_t>(entry.device_);
  const auto bytes = static_cast<std::int64_t>(entry.size_);
  if (entry.action_ == AllocatorEntry::ALLOC) {
    active_[device] += bytes;
    if (active_[device] > highest_[device]) highest_[device] = active_[device], bound();
    blocks_[at] = {at + std::max<std::uint64_t>(entry.size_, 1), boundaries_, ++allocations_,
                   false};
  } else if (entry.action_ == AllocatorEntry::FREE_REQUESTED) {
    blocks_.erase(at);
  } else if (entry.action_ == AllocatorEntry::FREE_COMPLETED) {
    active_[device] -= bytes;
  }
}

void Uses::made_in_forward(std::uint64_t begin) {
  if (const auto block = blocks_.find(begin); block != blocks_.end())
    block->second.of_forward = true;
}

Uses::Blocks::iterator Uses::around(std::uint64_t address) {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return blocks_.end();
  const auto at = std::prev(after);
  return address < at->second.end ? at : blocks_.end();
}

}  // namespace tidemark::recorder
