// PyTorch's CUDA caching allocator as a model: the same pools, rounding, segments, best fit,
// splitting, merging and stream uses (c10/cuda/CUDACachingAllocator.cpp, default settings), without
// a device, without libtorch, and without a capacity. Closed forms replay a plan of allocations in
// it where only the allocator can tell the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "reference/memory/placement.h"

namespace tidemark::reference {

struct Figure {
  std::int64_t current = 0, peak = 0;
  void add(std::int64_t bytes) {
    current += bytes;
    if (current > peak) peak = current;
  }
};

class Allocator {
 public:
  struct Block;
  using Handle = Block*;  // null for an allocation of 0 bytes

  /// `instant`: whatever was enqueued on a stream is done. Otherwise only what reached() says.
  /// If several blocks fit equally well, the one at the lowest address is taken.
  explicit Allocator(bool instant, Placement placement = Placement::of_linux)
      : instant_(instant), addresses_(placement) {}

  Handle allocate(std::int64_t bytes, int stream);
  void free(Handle block);
  /// `stream` uses the block too: once freed, it waits until that stream has done what was enqueued
  /// by then.
  void record(Handle block, int stream);

  /// One more operation on `stream`; returns how many there are now.
  std::int64_t enqueue(int stream) { return ++enqueued_[stream]; }
  /// The host knows that the first `count` operations of `stream` are done.
  void reached(int stream, std::int64_t count);
  /// ... all of them.
  void synchronize(int stream) { done_[stream] = enqueued_[stream]; }

  void reset_peaks();
  Figure allocated, active, reserved, requested;

  struct Block {
    std::int64_t address, size, requested = 0;
    int stream;
    bool small, used = false;
    std::set<int> uses = {};  // other streams
    int events = 0;
    Block *before = nullptr, *after = nullptr;  // within the segment
  };

 private:
  struct Order {
    bool operator()(const Block* a, const Block* b) const {
      return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
    }
  };
  using Pool = std::set<Block*, Order>;
  Pool& pool(const Block& block) { return block.small ? small_ : large_; }
  Block* find(std::int64_t size, int stream, bool small);
  Block* segment(std::int64_t size, int stream, bool small);
  void split(Block* block, std::int64_t size);
  void release(Block* block);
  Block* merge(Block* left, Block* right);
  void poll();

  struct Event {
    std::int64_t position;
    Block* block;
  };
  const bool instant_;
  std::list<Block> blocks_;  // all ever made; few
  Pool small_, large_;
  Addresses addresses_;
  std::map<int, std::deque<Event>> events_;
  std::map<int, std::int64_t> enqueued_, done_;
};

}  // namespace tidemark::reference
