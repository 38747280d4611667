// One memory pool: segments of device memory, cut into blocks that streams free and take again. Who
// may take a block is decided by what must be done before it may be used.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/device/engine.h"

namespace tidemark::device {

/// The caller holds the engine's lock.
class StreamPool {
 public:
  explicit StreamPool(int owner) : device(owner) {}

  /// `bytes` (a multiple of 512) for use by `s`: what is ordered before `s`, what is done, fresh
  /// memory, and at last what `s` is made to wait for. 0 where there is none.
  std::uintptr_t take(Stream& s, std::size_t bytes);
  /// Back into the pool; usable by others once `ready` is done. `stream` freed it; -1: nothing has
  /// to be waited for.
  void put_back(std::uintptr_t begin, const Mark& ready, std::int64_t stream);
  /// Gives whole segments back that are free and done, highest addresses first, until `keep` bytes
  /// are left.
  void shrink(std::uint64_t keep);
  bool owns(std::uintptr_t address) const { return blocks_.contains(address); }
  bool has_segment_at(std::uintptr_t address) const {
    return holding(segments_, address, std::identity()) != segments_.end();
  }
  bool in_use() const { return !blocks_.empty(); }

  const int device;
  bool alive = true;
  int follow_events = 1, opportunistic = 1, internal = 1;  // cudaMemPoolReuse...
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;  // bytes

 private:
  struct FreeBlock {
    std::size_t bytes;
    Mark ready;                // what has to be done before the memory may be used again
    std::int64_t stream = -1;  // the one that freed it; -1: never used
  };

  template <class Usable>
  std::uintptr_t best_run(std::size_t bytes, Usable usable) const;
  Mark cut(std::uintptr_t begin, std::size_t bytes);
  bool grow(std::size_t bytes);

  std::map<std::uintptr_t, std::size_t> segments_;
  std::map<std::uintptr_t, FreeBlock> free_;
  std::map<std::uintptr_t, std::size_t> blocks_;  // in use
};

}  // namespace tidemark::device
