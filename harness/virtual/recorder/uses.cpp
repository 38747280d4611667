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
    blocks_[at] = {at + std::max<std::uint64_t>(entry.size_, 1), boundaries_};
  } else if (entry.action_ == AllocatorEntry::FREE_REQUESTED) {
    blocks_.erase(at);
  } else if (entry.action_ == AllocatorEntry::FREE_COMPLETED) {
    active_[device] -= bytes;
  }
}

}  // namespace tidemark::recorder
