#include "harness/memory/requests.h"

#include <tuple>

namespace tidemark {
namespace {

std::int64_t bytes(std::uint64_t number) { return static_cast<std::int64_t>(number); }

PoolId pool_of(const recorder::Entry& entry) {
  return {bytes(entry.pool[0]), bytes(entry.pool[1])};
}

}  // namespace

void RequestReader::event(std::uint64_t device, const AllocatorEvent& event, std::size_t place) {
  if (event.action == AllocatorAction::segment_alloc ||
      event.action == AllocatorAction::segment_map)
    taken_[{device, event.address}] = place;
  if (event.action == AllocatorAction::oom) full_[device] = place;
}

void RequestReader::pool(const recorder::Entry& entry, BlockLayout& layout, Snapshot& out) {
  layout.set_owner(entry.addresses[0], pool_of(entry));
  if (const auto taken = taken_.find({entry.device, entry.addresses[0]}); taken != taken_.end())
    out.pooled.push_back({bytes(entry.device), taken->second, pool_of(entry)});
}

void RequestReader::refused(const recorder::Entry& entry, const BlockLayout& layout,
                            Snapshot& out) {
  // A record of so many requests and blocks is not a program's.
  constexpr std::size_t kLooks = 50'000'000;
  const auto event = full_.find(entry.device);
  if (event == full_.end()) return;
  RefusedRequest one{.device = bytes(entry.device),
                     .event = event->second,
                     .asked = bytes(entry.size),
                     .limit = bytes(entry.limit)};
  std::tie(one.allocated, one.active, one.reserved, one.outside) =
      std::tie(entry.held[0], entry.held[1], entry.held[2], entry.held[3]);
  looked_at_ += layout.blocks().size() + 1;
  if (looked_at_ < kLooks) {
    one.in_pools = layout.free_in({});
    if (entry.pool_known)
      one.usable = layout.free_in(pool_of(entry));
    else if (one.in_pools == 0)
      one.usable = layout.free_in(PoolId{});
  }
  out.refused.push_back(one);
}

}  // namespace tidemark
