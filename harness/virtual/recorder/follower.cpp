#include "harness/virtual/recorder/follower.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iterator>

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

/// PyTorch's events say the pool of their memory, from 2.9 on.
template <class Entry>
constexpr bool kHasPools = requires(const Entry& entry) { entry.mempool_; };

template <class Entry>
Pool pool_of(const Entry& entry) {
  if constexpr (kHasPools<Entry>)
    return {entry.mempool_.first, entry.mempool_.second};
  else
    return {0, 0, false};
}

/// Of a device of `total` bytes, what the process may have; 0: no limit of its own, or PyTorch does
/// not say it (before 2.6, until a request is refused).
template <class Allocator>
std::int64_t limit_of(Allocator& allocator, std::size_t device, std::int64_t total,
                      std::int64_t known) {
  if constexpr (requires { allocator.getMemoryFraction(0); }) {
    const double part = allocator.getMemoryFraction(static_cast<c10::DeviceIndex>(device));
    return part < 1 && total > 0 ? std::llround(part * static_cast<double>(total)) : 0;
  } else {
    return known;
  }
}

bool is_of_segments(const AllocatorEntry& entry) {
  return entry.action_ == Action::SEGMENT_ALLOC || entry.action_ == Action::SEGMENT_FREE ||
         entry.action_ == Action::SEGMENT_MAP || entry.action_ == Action::SEGMENT_UNMAP ||
         entry.action_ == Action::OOM;
}

/// Takes those without an address out that come last and sum to `bytes`.
void take_out(std::vector<Books::Change>& changes, std::int64_t bytes) {
  for (auto one = changes.end(); bytes != 0 && one != changes.begin();) {
    --one;
    if (one->address != 0 || (one->bytes < 0) != (bytes < 0) ||
        std::abs(one->bytes) > std::abs(bytes))
      continue;
    bytes -= one->bytes;
    one = changes.erase(one);
  }
}

// Called when the allocator is about to throw, without its lock: PyTorch's own message has these.
void on_out_of_memory(std::int64_t device, std::size_t asked, std::size_t most, std::size_t) {
  Follower* follower = follower_now;
  if (follower == nullptr || device < 0 || device >= static_cast<std::int64_t>(kDevices)) return;
  follower->refused(static_cast<std::size_t>(device), static_cast<std::int64_t>(asked),
                    static_cast<std::int64_t>(most));
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
    allocator::attachOutOfMemoryObserver(on_out_of_memory);
    attached = true;
  }
  follower_now = follower;
}

Follower* following() { return follower_now; }

void Follower::read_books(std::size_t device, const AllocatorEntry* entry) {
  Figures& f = figures_[device];
  OfDriver& driver = of_driver_[device];
  Books now = books(device);
  for (const Books::Change& change : now.changes)
    f.taken_peak = std::max(f.taken_peak, driver.taken += change.bytes);
  const auto bytes = entry == nullptr ? 0 : static_cast<std::int64_t>(entry->size_);
  std::uint64_t fresh = 0;  // the segment of this event
  if (entry != nullptr && entry->action_ == Action::SEGMENT_MAP) take_out(now.changes, bytes);
  if (entry != nullptr && entry->action_ == Action::SEGMENT_UNMAP) take_out(now.changes, -bytes);
  if (entry != nullptr && entry->action_ == Action::SEGMENT_ALLOC) {
    // The last one there: the address may have been another segment's until just now.
    const auto address = static_cast<std::uint64_t>(entry->addr_);
    const auto taken = std::find_if(
        now.changes.rbegin(), now.changes.rend(),
        [&](const Books::Change& one) { return one.address == address && one.bytes > 0; });
    if (taken != now.changes.rend()) {
      now.changes.erase(std::next(taken).base());
      fresh = address;
    }
  }
  for (const Books::Change& change : now.changes) {
    if (driver.segments.contains(change.address)) {
      if (change.bytes < 0) driver.segments.erase(change.address);
      continue;
    }
    f.outside_peak = std::max(f.outside_peak, f.outside += change.bytes);
  }
  if (fresh != 0) driver.segments.insert(fresh);
  // A request of the allocator's own ends with an event of segments. Before that it completes
  // frees, and does nothing else.
  if (now.refused > 0) driver.refused = now.refused, driver.left = now.left;
  if (entry != nullptr && entry->action_ == Action::FREE_COMPLETED) return;
  if (driver.refused > 0 && (entry == nullptr || !is_of_segments(*entry)))
    f.refused = driver.refused, f.refused_left = driver.left;
  driver.refused = 0;
  if (f.outside_peak > 0 || f.refused > 0) f.used = 1;
}

void Follower::settled(std::size_t device, const AllocatorStats& stats,
                       const AllocatorEntry* entry) {
  Figures& f = figures_[device];
  Statistics last{f.allocated, now(stats.active_bytes), now(stats.reserved_bytes),
                  now(stats.requested_bytes)};
  read_books(device, entry);
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
  settled(device, stats, &entry);
  figures_[device].used = 1;
  if (Figures& f = figures_[device]; is_of_segments(entry))
    f.limit = limit_of(*allocator::get(), device, total_of(device), f.limit);
  const auto bytes = static_cast<std::int64_t>(entry.size_);
  if (entry.action_ == Action::ALLOC) {
    figures_[device].unsettled = bytes;
    live_bytes_[device] += bytes;
  }
  if (entry.action_ == Action::FREE_REQUESTED) live_bytes_[device] -= bytes;
  if (entry.action_ == Action::OOM)
    refusals_[device] = {.figures = figures_[device], .pool = pool_of(entry)};
  on_event(entry);
  if (entry.action_ != Action::SEGMENT_ALLOC && entry.action_ != Action::SEGMENT_MAP) return;
  if (const Pool pool = pool_of(entry); pool.first != 0 || pool.second != 0)
    on_pool(device, static_cast<std::uint64_t>(entry.addr_), pool);
}

void Follower::refused(std::size_t device, std::int64_t asked, std::int64_t limit) {
  std::vector<std::pair<std::uint64_t, Pool>> pools;  // where events do not say them
  if (!kHasPools<AllocatorEntry> && !allocator::isHistoryEnabled())
    for (const auto& segment : allocator::snapshot().segments)
      if (const auto& [first, second] = segment.owner_private_pool_id;
          static_cast<std::size_t>(segment.device) == device && (first != 0 || second != 0))
        pools.emplace_back(segment.address, Pool{first, second});
  const std::lock_guard lock(mutex);
  const auto seen = refusals_.find(device);
  if (seen == refusals_.end()) return;
  Refusal refusal = seen->second;
  refusals_.erase(seen);
  for (const auto& [address, pool] : pools) on_pool(device, address, pool);
  refusal.asked = asked;
  refusal.limit = limit < total_of(device) ? limit : 0;
  figures_[device].limit = refusal.limit;
  on_refused(device, refusal);
}

void Follower::settle(std::size_t device) {
  const auto stats = stats_of(device);
  const std::lock_guard lock(mutex);
  settled(device, stats, nullptr);
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
