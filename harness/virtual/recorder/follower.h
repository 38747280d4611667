// Follower of PyTorch's caching allocator: the one place of tidemark that measures it. A program's
// record (state.h) and a scenario's (harness/measure/scenario_record.h) are made of what it tells.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "harness/memory/format/format.h"

namespace tidemark::recorder {

using AllocatorEntry = c10::cuda::CUDACachingAllocator::TraceEntry;
using AllocatorStats = decltype(c10::cuda::CUDACachingAllocator::getDeviceStats(0));

/// PyTorch's four statistics of a device, in bytes.
struct Statistics {
  std::int64_t allocated = 0, active = 0, reserved = 0, requested = 0;
};

/// What the driver's books say of a device since they were last read: changes of the memory that
/// programs have there, in order, and the last request that the device had no room for.
struct Books {
  struct Change {
    std::int64_t bytes = 0;     // < 0: given back
    std::uint64_t address = 0;  // 0: memory that is mapped elsewhere
  };
  std::vector<Change> changes;
  std::int64_t refused = 0, left = 0;
};

/// A private pool of the allocator (of a CUDA graph, of a MemPool); 0, 0: PyTorch's own.
struct Pool {
  std::uint64_t first = 0, second = 0;
  bool known = true;
};

/// A request that the allocator has refused.
struct Refusal {
  std::int64_t asked = 0;  // of the device, which may be more than the program wanted
  std::int64_t limit = 0;  // of the process; 0: it has none of its own
  Figures figures{};       // of that moment
  Pool pool;               // of the request
};

/// A stretch of the program on one device: when it began, at the highest of each statistic (its
/// first moment included), and now.
struct Stretch {
  Statistics begin, highest, now;
};

/// Gets every event of the allocator, and keeps the figures of each device with their peaks. An
/// event of an allocation comes before the statistics count its block, whose size is known at the
/// device's next event, or when it is settled.
class Follower {
 public:
  Follower() = default;
  virtual ~Follower() = default;
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Its lock is taken after the allocator's own and never before it: a caller has read the
  /// statistics when it takes this one.
  std::mutex mutex;

  /// `stats` are those of the event's device now. The caller has the lock.
  void event(const AllocatorEntry& entry, const AllocatorStats& stats);
  /// The allocator has refused a request that `event` has seen: what it asked of the device, and
  /// what the process may have. Without the lock, and without the allocator's.
  void refused(std::size_t device, std::int64_t asked, std::int64_t limit);
  /// Brings a device's figures up to its last allocation. The caller has not the lock.
  void settle(std::size_t device);

  /// A stretch begins on a device; its number. Stretches may overlap.
  std::int64_t begin(std::size_t device);
  /// A stretch until now; zeros where no stretch has that number.
  Stretch read(std::int64_t stretch);
  void end(std::int64_t stretch);
  /// Bytes that the program holds on a device, as requested, of those allocated since this follower
  /// began. They differ from the allocator's `requested`, which counts a freed block until its
  /// streams are done with it.
  std::int64_t live_bytes(std::size_t device);

 protected:
  const Figures& figures(std::size_t device) const { return figures_[device]; }

 private:
  /// The block of the device's last allocation, of figures().unsettled bytes as requested, has so
  /// many.
  virtual void on_block(std::size_t device, std::int64_t bytes) = 0;
  /// An event that is no snapshot, of one of the first kDevices devices.
  virtual void on_event(const AllocatorEntry& entry) = 0;
  /// The figures of a device are those of now, without an event.
  virtual void on_settled(std::size_t) {}
  virtual void on_refused(std::size_t, const Refusal&) {}
  /// The segment of a device at this address is one of a private pool.
  virtual void on_pool(std::size_t, std::uint64_t, const Pool&) {}
  /// The driver's books, where there are some.
  virtual Books books(std::size_t) { return {}; }
  /// Bytes of a device, as the driver says; 0: not known.
  virtual std::int64_t total_of(std::size_t) { return 0; }

  struct Open {
    std::size_t device = 0;
    Statistics begin, highest;
  };
  void settled(std::size_t device, const AllocatorStats& stats, const AllocatorEntry* entry);
  /// Before an event, or at none. A segment is the allocator's from the event that tells its
  /// address to its end in the books. What the allocator maps lies in the books, without an
  /// address, before the event that tells its bytes: the last changes that sum to them. All else is
  /// outside.
  void read_books(std::size_t device, const AllocatorEntry* entry);
  /// Hands the highest figures to the stretches of the device.
  void fold(std::size_t device);

  std::array<Figures, kDevices> figures_{};
  std::array<Statistics, kDevices> highest_{};  // since they were handed on
  std::array<std::int64_t, kDevices> live_bytes_{};
  std::map<std::size_t, Refusal> refusals_;  // by device: of the last event of that kind
  struct OfDriver {
    std::set<std::uint64_t> segments;    // of the allocator, by address
    std::int64_t taken = 0;              // by all
    std::int64_t refused = 0, left = 0;  // by whom it was asked is not known yet
  };
  std::map<std::size_t, OfDriver> of_driver_;
  std::map<std::int64_t, Open> open_;  // stretches, by number
  std::int64_t stretches_ = 0;
};

AllocatorStats stats_of(std::size_t device);

/// The follower gets all events from now on; nullptr: none does. One at a time in a process, since
/// PyTorch has no call that detaches a tracker. Throws c10::Error if the program has another
/// allocator than PyTorch's.
void follow(Follower* follower);
/// The one that gets them; nullptr: none.
Follower* following();

}  // namespace tidemark::recorder
