// PyTorch's own caching allocator on the virtual device, which repeats what a recording did. Every
// address here is a recorded one: segments are made where the recording has them.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <driver_types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/memory/settings.h"
#include "harness/memory/snapshot.h"

namespace tidemark {

/// A segment that came or went, or memory of an expandable one.
struct SegmentEvent {
  AllocatorAction action;
  std::optional<std::int64_t> address;  // none: of a segment that the recording does not have
  std::int64_t size, stream;
  auto operator<=>(const SegmentEvent&) const = default;
  std::string text() const;
};

/// The process has one at most.
class ReplayedAllocator {
 public:
  static constexpr std::int64_t kLargestSmall = 1 << 20;  // bytes of a block in a small segment
  /// More than any GPU has. An expandable segment of it reserves its addresses, one or two for each
  /// stream, and there are 20 TiB of these.
  static constexpr Bytes kNoLimit = Bytes{280} << 30;
  /// Takes streams and addresses from the segments before the trace, and from the trace. Throws
  /// SnapshotError for more streams than are replayed. Settings take effect with use().
  ReplayedAllocator(const std::vector<Segment>& before, const std::vector<AllocatorEvent>& trace);
  ~ReplayedAllocator();
  ReplayedAllocator(const ReplayedAllocator&) = delete;
  void use(const std::string& settings);

  struct Request {
    std::int64_t bytes, stream;
    PoolId pool;
    bool expandable;  // segments, if it makes one
  };
  /// The segment that the next allocation makes begins here; or the memory that it maps, if none of
  /// the expandable segment is mapped.
  void place(std::int64_t address) { wanted_ = address; }
  void* take(const Request& request);
  void give(void* block);
  /// Frees a block of a stream, which a holder keeps from the allocator until its `number`th comes
  /// back, or until an allocation has to wait for it. hold() makes the holders.
  void hold(std::size_t holders);
  void give_later(void* block, std::size_t holder);
  void come_back(std::size_t holder, std::uint64_t number);
  /// Gives every free segment of PyTorch's own pool back to the device.
  void release();

  /// Segment events since the last call.
  std::vector<SegmentEvent> made() { return std::exchange(made_, {}); }
  /// The address that the recording has for it; none: in a segment that it does not have.
  std::optional<std::int64_t> recorded(const void* pointer) const;
  /// Bytes of each segment by its address; a segment without one counts as at -1.
  std::map<std::int64_t, std::int64_t> segments() const;
  std::size_t streams() const { return streams_.size(); }

  /// All that the allocator can have from now on (0: no limit), and the part of the GPU that it may
  /// take. Throws SnapshotError where it has more.
  void limit(Bytes capacity);
  void set_fraction(double fraction);
  struct Figures {  // peaks since the limit
    Bytes reserved, reserved_peak, allocated_peak, active_peak;
    std::int64_t retries;
  };
  Figures figures() const;
  Bytes device_free() const;

 private:
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  struct Area {  // a segment, or what an expandable one has mapped
    std::optional<std::int64_t> recorded;
    std::int64_t mapped;
    Request made_by;
  };
  using Areas = std::map<std::uintptr_t, Area>;
  void note(const Entry& entry);
  Areas::iterator mapped();
  void set();

  std::map<std::int64_t, cudaStream_t> streams_;
  std::map<cudaStream_t, std::int64_t> stream_ids_;
  std::map<std::int64_t, std::int64_t> offsets_;  // by the begin of a range
  std::map<PoolId, c10::MempoolId_t> pools_;      // by the recorded one
  std::string settings_;
  bool expandable_ = false;
  Request current_{};
  std::optional<std::int64_t> wanted_;  // address of the next segment
  std::uintptr_t placed_ = 0;           // the same here
  Areas areas_;
  std::vector<SegmentEvent> made_;
  std::vector<cudaStream_t> holders_;
};

}  // namespace tidemark
