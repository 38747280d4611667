// Follows PyTorch's allocator event by event: which category holds how much, and memory over time.
// Fed by the allocator's own trace (requested bytes, addresses) and its statistics (block sizes),
// so that the shares sum to the peak to the byte.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/record.h"

namespace tidemark {

class Tide {
 public:
  /// Follows `device` from now on, until destroyed. One at a time in a process.
  explicit Tide(int device);
  ~Tide();
  Tide(const Tide&) = delete;
  Tide& operator=(const Tide&) = delete;

  void begin_step();  // forgets the peak and the timeline of the step before
  /// Shares at the highest allocated moment since begin_step, and now; both sum to the allocator's
  /// figure exactly.
  std::vector<Category> categories();
  std::vector<Sample> timeline() const;
  Bytes allocated() const;  // the allocator's own figure
  /// What the program holds, as requested, of what it has taken since this follows. Not the
  /// allocator's `requested`, which counts a freed block until its streams are done with it.
  Bytes held() const { return held_; }

 private:
  friend void on_trace(const c10::CachingDeviceAllocator::TraceEntry&);
  void on_event(const c10::CachingDeviceAllocator::TraceEntry& entry);
  void settle(Bytes freed);
  void name_workspaces();

  struct Block {
    Bytes bytes;
    const char* category;
  };
  int device_;
  std::unordered_map<std::size_t, Block> live_;
  std::map<std::string, Bytes> current_, at_peak_;
  std::size_t unsettled_ =
      0;  // address of the last allocation, whose block size the statistics do not show yet
  Bytes known_ = 0, peak_ = 0, held_ = 0;
  std::vector<Sample> samples_;
};

/// What new allocations count as; process-wide, because the autograd threads work for the thread
/// that waits for them.
const char* current_category();
void set_current_category(const char* category);

}  // namespace tidemark
