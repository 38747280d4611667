// Layout of the caching allocator's blocks, followed from its own events, so that the layout of any
// moment of a step can be had afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "harness/record/memory_history.h"

namespace tidemark {

class BlockLayout {
 public:
  /// An event, of an allocation with its block.
  void apply(const AllocatorEvent& change);
  /// The pool of the segment at this address; where it is not known, the latest allocation tells.
  void set_pool(std::int64_t address, bool small);
  /// The segment that begins at this address, or is mapped there, is one of a private pool.
  void set_owner(std::int64_t address, PoolId pool);
  /// Free bytes of a pool; without one, of all private pools together.
  Bytes free_in(std::optional<PoolId> pool) const;

  const std::map<std::int64_t, MemoryBlock>& blocks() const {
    return blocks_;
  }  // active, by address
  std::map<std::int64_t, MemoryBlock>& blocks() { return blocks_; }
  /// True if an active block is around the address.
  bool has_block_at(std::int64_t address) const;
  /// Segments by address with what they are cut into; free blocks that touch are one, as the
  /// allocator merges them.
  std::vector<Segment> segments() const;

 private:
  struct Reserved {
    Bytes bytes = 0;
    std::int64_t stream = 0;
    bool mapped = false;  // of an expandable segment: grows and shrinks
    bool small = false;   // its pool
    PoolId owner{};
  };
  void add_mapped(std::int64_t address, Bytes bytes, std::int64_t stream);
  void join_mapped(std::map<std::int64_t, Reserved>::iterator at);
  void remove_mapped(std::int64_t address, Bytes bytes);
  Segment cut(std::int64_t address, const Reserved& reserved) const;

  std::map<std::int64_t, Reserved> segments_;
  std::map<std::int64_t, MemoryBlock> blocks_;
};

}  // namespace tidemark
