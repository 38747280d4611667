#include "harness/virtual/race/blocks.h"

namespace tidemark::race {

void Blocks::forget(std::uintptr_t begin, std::uint64_t bytes) {
  const std::uintptr_t end = begin + bytes;
  auto at = owners_.upper_bound(begin);
  if (at != owners_.begin()) --at;
  while (at != owners_.end() && at->first < end) {
    const auto [place, owner] = *at;
    if (owner.end <= begin) {
      ++at;
      continue;
    }
    at = owners_.erase(at);
    if (place < begin) owners_.emplace(place, Owner{begin, owner.id});
    if (owner.end > end) owners_.emplace(end, Owner{owner.end, owner.id});
  }
}

void Blocks::allocate(std::uintptr_t begin, std::uint64_t bytes, std::uint32_t stream,
                      std::uint32_t phase) {
  if (bytes == 0) return;
  forget(begin, bytes);
  owners_[begin] = {begin + bytes, ++latest_};
  known_[latest_] = {bytes, stream, phase, 0, false};
}

void Blocks::clear() {
  owners_.clear();
  known_.clear();
}

void Blocks::free(std::uintptr_t begin, std::uint32_t phase) {
  const auto owner = owners_.find(begin);
  if (owner == owners_.end()) return;
  Block& block = known_[owner->second.id];
  block.freed = phase;
  block.is_freed = true;
}

std::uint64_t Blocks::at(std::uintptr_t address) const {
  auto next = owners_.upper_bound(address);
  if (next == owners_.begin()) return 0;
  --next;
  return address < next->second.end ? next->second.id : 0;
}

const Block* Blocks::find(std::uint64_t id) const {
  const auto block = known_.find(id);
  return block == known_.end() ? nullptr : &block->second;
}

}  // namespace tidemark::race
