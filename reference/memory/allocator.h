// PyTorch's CUDA caching allocator as a model: the same pools, rounding, segments, best fit,
// splitting, merging and stream uses (c10/cuda/CUDACachingAllocator.cpp, default settings), without
// a device, without libtorch, and without a capacity. Closed forms replay a plan of allocations in
// it where only the allocator can tell the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "reference/memory/account.h"
#include "reference/memory/placement.h"

namespace tidemark::reference {

struct Figure {
  std::int64_t current = 0, peak = 0;
  void add(std::int64_t bytes) {
    current += bytes;
    if (current > peak) peak = current;
  }
};

/// A plan with one allocation wrong, as a test wants it: the plan must then fail.
struct PlanFault {
  enum Kind { none, dropped, doubled, freed_late } kind = none;  // late: with its phase
  std::int64_t allocation = 0;                                   // the first is 0
  std::int64_t allocations = 0;                                  // of the plan so far
  std::set<std::string_view> symbols = {};                       // of these
};

class Allocator {
 public:
  struct Block;
  using Handle = Block*;  // null for an allocation of 0 bytes

  /// `instant`: whatever was enqueued on a stream is done. Otherwise only what reached() says.
  /// If several blocks fit equally well, the one at the lowest address is taken.
  explicit Allocator(bool instant, Placement placement = Placement::of_linux)
      : instant_(instant), addresses_(placement) {}

  Handle allocate(const Amount& amount, int stream);
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

  /// A phase begins.
  void reset_peaks();
  Figure allocated, active, reserved, requested;

  /// Accounts of allocated and of active (and requested) memory: now, and at the peak of each.
  const Account& allocated_now() const { return allocated_account_; }
  const Account& active_now() const { return active_account_; }
  struct Peaks {
    Account allocated, active, requested;
    /// The highest sum of allocations that are rounded up to 512 bytes. Allocated bytes are at
    /// least that and at most `widest`, whichever blocks they get: one over 1 MiB keeps up to 1 MiB
    /// that is too little to split off.
    struct InAnyBlock {
      Account highest;
      std::int64_t widest = 0;  // bytes
    } in_any_block;
  };
  const Peaks& at_peaks();
  /// The plan's word for what it does from now on.
  void at(const std::string& where) {
    at_peaks();
    allocated_account_.where = active_account_.where = where;
  }

  /// The fault of the plans of this thread; null outside of tests.
  static inline thread_local PlanFault* fault = nullptr;

  struct Block {
    std::int64_t address, size, requested = 0;
    int stream;
    bool small, used = false;
    std::set<int> uses = {};  // other streams
    int events = 0;
    std::size_t allocated_term = 0, active_term = 0;  // its places in the accounts
    std::int64_t unsplit = 0;
    Block* twin = nullptr;                      // of a doubled allocation
    bool late = false;                          // it is freed with its phase
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
  Handle take(const Amount& amount, int stream);
  void give_back(Block* block);
  void settle(Figure& figure, const Account& now, Account& at_peak, std::int64_t& settled);
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
  Account allocated_account_, active_account_;
  Peaks at_peaks_;
  Figure rounded_, widest_;
  Block dropped_{};                        // of a PlanFault: a tensor for the plan, and no memory
  std::array<std::int64_t, 4> settled_{};  // peaks whose accounts these are
  std::vector<Block*> late_;
};

}  // namespace tidemark::reference
