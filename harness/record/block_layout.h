// Layout of the caching allocator's blocks, followed from its own events, so that the layout of any
// moment of a step can be had afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/record/memory_history.h"

namespace tidemark {

/// An event of the allocator, with what it leaves out: the size of the block that an allocation
/// got.
struct BlockChange : AllocatorEvent {
  Bytes block = 0;          // of an alloc
  std::uint32_t owner = 0;  // of an alloc: whatever the caller knows its block by
};

class BlockLayout {
 public:
  struct Block : MemoryBlock {
    std::uint32_t owner = 0;
  };

  void apply(const BlockChange& change);
  /// The pool of the segment at this address; where it is not known, the latest allocation tells.
  void set_pool(std::int64_t address, bool small);

  const std::map<std::int64_t, Block>& blocks() const { return blocks_; }  // active, by address
  std::map<std::int64_t, Block>& blocks() { return blocks_; }
  /// Segments by address with what they are cut into; free blocks that touch are one, as the
  /// allocator merges them.
  std::vector<Segment> segments() const;

 private:
  struct Reserved {
    Bytes bytes = 0;
    std::int64_t stream = 0;
    bool mapped = false;  // of an expandable segment: grows and shrinks
    bool small = false;   // its pool
  };
  void add_mapped(std::int64_t address, Bytes bytes, std::int64_t stream);
  void remove_mapped(std::int64_t address, Bytes bytes);
  Segment cut(std::int64_t address, const Reserved& reserved) const;

  std::map<std::int64_t, Reserved> segments_;
  std::map<std::int64_t, Block> blocks_;
};

}  // namespace tidemark
