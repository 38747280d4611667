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
    blocks_[at] = {at + std::max<std::uint64_t>(entry.size_, 1), boundaries_, ++allocations_};
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

void Uses::labelled(std::uint64_t address, std::string_view kind) {
  const auto at = around(address);
  if (at == blocks_.end()) return;
  Block& block = at->second;
  block.is_parameter = block.is_parameter || kind == "parameters";
  block.is_gradient = block.is_gradient || kind == "gradients";
  block.of_gradient = block.of_gradient || block.is_gradient;
}

bool Uses::computed_from(std::uint64_t output, std::uint64_t source) {
  const auto to = around(output), from = around(source);
  if (to == blocks_.end() || from == blocks_.end() || !from->second.of_gradient) return false;
  Block& block = to->second;
  if (block.is_gradient || block.of_forward || (to == from && block.is_parameter)) return false;
  if (!block.is_parameter) block.of_gradient = true;
  if (block.born > born_before_ || from->second.born > born_before_) return true;
  Block::Told& told = from->second.told[block.born];
  if (told.step != step_) told = {step_, told.steps + 1};
  return told.steps <= 2;
}

Uses::Blocks::iterator Uses::around(std::uint64_t address) {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return blocks_.end();
  const auto at = std::prev(after);
  return address < at->second.end ? at : blocks_.end();
}

}  // namespace tidemark::recorder
