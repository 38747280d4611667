// Memory of PyTorch's caching allocator: what it holds at one moment, and the events before that.
// The memory of a scenario's rank, of a program and of a file of PyTorch's has these types. Plain
// data, no libtorch.
//
// Times are nanoseconds; pickles have microseconds. A stream is a number: PyTorch's handle, of
// which 0 is the default stream, or in the record of a scenario the streams in the order of their
// use.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/allocator_action.h"

namespace tidemark {

using Bytes = std::int64_t;
using Ns = std::int64_t;

struct StackFrame {
  std::string function, file;
  std::int64_t line = 0;
  bool operator==(const StackFrame&) const = default;
};

/// Held by tensors; freed, and still awaiting a stream; or free in the allocator's cache.
enum class BlockState { allocated, pending_free, inactive };
/// PyTorch's words for them, in memory snapshots.
constexpr auto words(BlockState) {
  return std::array{"active_allocated", "active_pending_free", "inactive"};
}

struct MemoryBlock {
  std::int64_t address = 0;
  Bytes size = 0, requested = 0;
  BlockState state = BlockState::inactive;
  std::uint32_t stack = 0;  // of its allocation
  bool operator==(const MemoryBlock&) const = default;
};

using PoolId = std::array<std::int64_t, 2>;  // {0, 0}: PyTorch's own pool, else a private one

struct Segment {
  std::int64_t device = 0, address = 0;  // the virtual device always gives the same addresses
  Bytes total_size = 0;
  std::int64_t stream = 0;
  std::string type = "large";  // or "small"
  bool expandable = false;
  PoolId pool{};
  std::uint32_t stack = 0;
  std::vector<MemoryBlock> blocks;  // contiguous; their sizes sum to total_size
  bool operator==(const Segment&) const = default;
};

struct AllocatorEvent {
  AllocatorAction action = AllocatorAction::alloc;
  std::int64_t address = 0;  // of oom, as in PyTorch: the bytes that the device had left
  Bytes size = 0;            // as requested; of segments their own
  std::int64_t stream = 0;
  Ns time = 0;
  std::uint32_t stack = 0;
  std::uint32_t module = 0;  // in Snapshot::modules: the one that ran forward, if it is known
  Bytes block = 0;           // of an allocation: of its block; 0: not known
  bool operator==(const AllocatorEvent&) const = default;
};

struct MemoryHistory {
  std::vector<Segment> segments;                    // at the end
  std::vector<std::vector<AllocatorEvent>> traces;  // by device; recordings have one
  std::vector<StackFrame> frames;
  std::vector<std::vector<std::uint32_t>> stacks{{}};  // of frames, innermost first; 0: of none
  std::map<std::int64_t, std::string> streams;         // names, of those that have one
  std::int64_t left_out = 0;                           // the first events, if there were too many
  bool operator==(const MemoryHistory&) const = default;

  /// The operators of a recording by stack: each is a frame, and a stack of its own. Stack 0, of no
  /// operator, has an empty name.
  std::vector<std::string> operators() const;
  void set_operators(const std::vector<std::string>& by_stack);
};

/// Nanoseconds of PyTorch's microseconds; times that 64 bits do not hold become the farthest.
constexpr Ns ns_of(std::int64_t microseconds) {
  constexpr std::int64_t kFarthest = INT64_MAX / 2000;  // so that differences are held too
  return std::clamp(microseconds, -kFarthest, kFarthest) * 1000;
}

}  // namespace tidemark
