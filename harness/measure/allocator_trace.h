// Trace of PyTorch's allocator, event by event: bytes of each category, memory over time, and the
// place of every block of the last step. The allocator's own trace gives requested bytes and
// addresses, and its statistics give block sizes. The categories therefore sum to the peak, to the
// byte.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/record/block_layout.h"
#include "harness/record/record.h"
#include "harness/record/string_table.h"

namespace tidemark {

class AllocatorTrace {
 public:
  /// Follows `device` from now on, until destroyed. One at a time in a process.
  explicit AllocatorTrace(int device);
  ~AllocatorTrace();
  AllocatorTrace(const AllocatorTrace&) = delete;
  AllocatorTrace& operator=(const AllocatorTrace&) = delete;

  void begin_step();  // forgets the peaks, the timeline and the events of the step before
  /// Shares at the highest allocated moment since begin_step, and now; both sum to the allocator's
  /// figure exactly.
  std::map<std::string, Category> categories();
  std::vector<Sample> timeline() const;
  /// At the highest allocated moment since begin_step: the `most` largest blocks.
  std::vector<AliveBlock> largest(std::size_t most);
  /// Everything reserved now.
  MemoryMap map();
  /// Since begin_step; the last `most`.
  EventTrace trace(std::size_t most);
  Bytes allocated() const;  // the allocator's own figure
  /// Bytes that the program holds, as requested, of those allocated since this trace began. It
  /// differs from the allocator's `requested`, which counts a freed block until its streams are
  /// done with it.
  Bytes requested_bytes() const { return requested_; }

 private:
  using Stats = c10::CachingDeviceAllocator::DeviceStats;
  friend void on_trace(const c10::CachingDeviceAllocator::TraceEntry&);
  friend void on_returned(const at::Tensor&);
  friend void change_category(const at::Tensor&, const char*);
  void take_stock();
  void on_event(const c10::CachingDeviceAllocator::TraceEntry& entry);
  void settle(const Stats& stats);
  void settle_now();
  void allocated_one(const c10::CachingDeviceAllocator::TraceEntry& entry, BlockChange& change);
  void name_workspaces();
  /// The block at `memory`, if there is one, counts as `category` from now on.
  void move(const void* memory, const char* category);
  void describe(const at::Tensor& tensor);
  std::uint32_t stream(void* handle);
  /// The block that is active at this address, or null.
  BlockLayout::Block* block_at(std::int64_t address);

  struct Owner {  // what is known of a block besides its place
    const char* category = nullptr;
    std::uint32_t op = 0, stream = 0;
    bool described = false;
    std::vector<std::int64_t> shape;
    std::string dtype;
  };
  struct Peak {
    Bytes bytes = 0;
    std::size_t count = 0;  // events of the step until then
  };

  mutable std::mutex mutex_;  // taken after the allocator's own lock, never before it
  int device_;
  std::map<std::string, Bytes> current_, at_peak_;
  BlockLayout before_, now_;          // when the step began, and now
  std::vector<BlockChange> changes_;  // since it began
  std::vector<Owner> owners_;
  StringTable ops_;
  std::vector<std::string> streams_;
  std::unordered_map<void*, std::uint32_t> stream_places_;
  bool unsettled_ = false;  // the last event is an allocation, whose block size the statistics do
                            // not show yet
  Bytes allocated_ = 0, active_ = 0, reserved_ = 0, requested_ = 0;
  Peak peak_;
  std::vector<Sample> samples_;
};

/// Tells the trace that follows of a tensor that an operator has returned.
void on_returned(const at::Tensor& tensor);

/// The tensor's memory counts as `category` from now on.
void change_category(const at::Tensor& tensor, const char* category);

/// The category of new allocations; process-wide, because the autograd threads work for the thread
/// that waits for them.
const char* current_category();
void set_current_category(const char* category);

}  // namespace tidemark
