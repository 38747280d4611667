#include "harness/virtual/recorder/follower.h"

#include <algorithm>
#include <atomic>

namespace tidemark::recorder {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Action = AllocatorEntry::Action;
static_assert(Action::SEGMENT_UNMAP == static_cast<int>(AllocatorAction::segment_unmap) &&
              Action::OOM == static_cast<int>(AllocatorAction::oom));

std::atomic<Follower*> follower_now{nullptr};

// The allocator calls this below its own (recursive) lock.
void on_trace(const AllocatorEntry& entry) {
  Follower* follower = follower_now;
  if (follower == nullptr) return;
  const auto device = static_cast<std::size_t>(entry.device_);
  if (entry.action_ == Action::SNAPSHOT || device >= kDevices) return;
  const auto stats = stats_of(device);
  const std::lock_guard lock(follower->mutex);
  follower->event(entry, stats);
}

template <class Stat>
std::int64_t now(const Stat& stat) {
  return stat[0].current;
}

Statistics highest(const Statistics& one, const Statistics& other) {
  return {std::max(one.allocated, other.allocated), std::max(one.active, other.active),
          std::max(one.reserved, other.reserved), std::max(one.requested, other.requested)};
}

Statistics of(const Figures& f) { return {f.allocated, f.active, f.reserved, f.requested}; }

}  // namespace

AllocatorStats stats_of(std::size_t device) {
  return allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
}

void follow(Follower* follower) {
  static bool attached = false;
  if (follower != nullptr && !attached) {
    allocator::attachAllocatorTraceTracker(on_trace);
    attached = true;
  }
  follower_now = follower;
}

Follower* following() { return follower_now; }

void Follower::settled(std::size_t device, const AllocatorStats& stats) {
  Figures& f = figures_[device];
  Statistics last{f.allocated, now(stats.active_bytes), now(stats.reserved_bytes),
                  now(stats.requested_bytes)};
  if (f.unsettled > 0) {
    // Active bytes change at nothing else between an allocation and the next event.
    const std::int64_t block = last.active - f.active;
    last.allocated += block;
    f.allocated_peak = std::max(f.allocated_peak, last.allocated);
    f.active_peak = std::max(f.active_peak, last.active);
    f.requested_peak = std::max(f.requested_peak, last.requested);
    highest_[device] = highest(highest_[device], last);
    on_block(device, block);
    f.unsettled = 0;
  }
  f.allocated = now(stats.allocated_bytes);
  f.active = last.active;
  f.reserved = last.reserved;
  f.requested = last.requested;
  f.reserved_peak = std::max(f.reserved_peak, f.reserved);
  highest_[device].reserved = std::max(highest_[device].reserved, f.reserved);
  f.retries = stats.num_alloc_retries;
  f.ooms = stats.num_ooms;
}

void Follower::event(const AllocatorEntry& entry, const AllocatorStats& stats) {
  const auto device = static_cast<std::size_t>(entry.device_);
  settled(device, stats);
  figures_[device].used = 1;
  const auto bytes = static_cast<std::int64_t>(entry.size_);
  if (entry.action_ == Action::ALLOC) {
    figures_[device].unsettled = bytes;
    live_bytes_[device] += bytes;
  }
  if (entry.action_ == Action::FREE_REQUESTED) live_bytes_[device] -= bytes;
  on_event(entry);
}

void Follower::settle(std::size_t device) {
  const auto stats = stats_of(device);
  const std::lock_guard lock(mutex);
  settled(device, stats);
  on_settled(device);
}

void Follower::fold(std::size_t device) {
  for (auto& [number, open] : open_)
    if (open.device == device) open.highest = highest(open.highest, highest_[device]);
  highest_[device] = of(figures_[device]);
}

std::int64_t Follower::begin(std::size_t device) {
  if (device >= kDevices) return 0;
  settle(device);
  const std::lock_guard lock(mutex);
  fold(device);
  const Statistics now = of(figures_[device]);
  open_[++stretches_] = {device, now, now};
  return stretches_;
}

Stretch Follower::read(std::int64_t stretch) {
  std::size_t device = 0;
  {
    const std::lock_guard lock(mutex);
    const auto open = open_.find(stretch);
    if (open == open_.end()) return {};
    device = open->second.device;
  }
  settle(device);
  const std::lock_guard lock(mutex);
  fold(device);
  const auto open = open_.find(stretch);
  if (open == open_.end()) return {};
  return {open->second.begin, open->second.highest, of(figures_[device])};
}

void Follower::end(std::int64_t stretch) {
  const std::lock_guard lock(mutex);
  open_.erase(stretch);
}

std::int64_t Follower::live_bytes(std::size_t device) {
  const std::lock_guard lock(mutex);
  return device < kDevices ? live_bytes_[device] : 0;
}

}  // namespace tidemark::recorder
