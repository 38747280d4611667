// Trace of the memory of a scenario's step, allocator event by event: bytes of each category,
// memory over time, and the place of every block of the last step. The allocator's own trace gives
// requested bytes and addresses, and its statistics give block sizes. The categories therefore sum
// to the peak, to the byte.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/record/block_layout.h"
#include "harness/record/record.h"
#include "harness/record/string_table.h"
#include "harness/virtual/recorder/follower.h"

namespace tidemark {

class AllocatorTrace : public recorder::Follower {
 public:
  /// Follows `device` from now on, until destroyed. One at a time in a process.
  explicit AllocatorTrace(int device);
  ~AllocatorTrace() override;

  void begin_step();  // forgets the peaks, the timeline and the events of the step before
  /// Shares at the highest allocated moment since begin_step, and now; both sum to the allocator's
  /// figure exactly.
  std::map<MemoryKind, Category> categories();
  std::vector<Sample> timeline();
  /// At the highest allocated moment since begin_step: the `most` largest blocks.
  std::vector<AliveBlock> largest(std::size_t most);
  /// The last `most` events since begin_step, and everything reserved now.
  MemoryHistory history(std::size_t most);

 private:
  friend void on_returned(const at::Tensor&);
  friend void change_category(const at::Tensor&, MemoryKind);
  void take_stock();
  void on_block(std::size_t device, Bytes bytes) override;
  void on_event(const recorder::AllocatorEntry& entry) override;
  void settle_now() { settle(static_cast<std::size_t>(device_)); }
  void allocated_one(const recorder::AllocatorEntry& entry, BlockChange& change);
  void name_workspaces();
  /// The block at `memory`, if there is one, counts as `kind` from now on.
  void move(const void* memory, MemoryKind kind);
  void describe(const at::Tensor& tensor);
  std::uint32_t stream(void* handle);
  /// The block that is active at this address, or null.
  BlockLayout::Block* block_at(std::int64_t address);

  struct Owner {  // what is known of a block besides its place
    MemoryKind category = MemoryKind::other;
    std::uint32_t stream = 0;
    bool described = false;
    std::vector<std::int64_t> shape;
    std::string dtype;
  };
  struct Peak {
    Bytes bytes = 0;
    std::size_t count = 0;  // events of the step until then
  };

  int device_;
  std::map<MemoryKind, Bytes> current_, at_peak_;
  BlockLayout before_, now_;          // when the step began, and now
  std::vector<BlockChange> changes_;  // since it began
  std::vector<Owner> owners_;
  StringTable ops_;
  std::vector<std::string> streams_;
  std::unordered_map<void*, std::uint32_t> stream_places_;
  Bytes allocated_ = 0, active_ = 0, reserved_ = 0;  // after the last event
  Peak peak_;
  std::vector<Sample> samples_;
};

/// Tells the trace that follows of a tensor that an operator has returned.
void on_returned(const at::Tensor& tensor);

/// The tensor's memory counts as `kind` from now on.
void change_category(const at::Tensor& tensor, MemoryKind kind);

/// The kind of new allocations; process-wide, because the autograd threads work for the thread
/// that waits for them.
MemoryKind current_category();
void set_current_category(MemoryKind kind);

}  // namespace tidemark
