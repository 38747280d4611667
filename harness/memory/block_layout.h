// Layout of the caching allocator's blocks, followed from its own events, so that the layout of any
// moment of a step can be had afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "harness/record/memory_history.h"

namespace tidemark {

class BlockLayout {
 public:
  /// An event, of an allocation with its block.
  void apply(const AllocatorEvent& change);
  /// The pool of the segment at this address; where it is not known, the latest allocation tells.
  void set_pool(std::int64_t address, bool small);

  const std::map<std::int64_t, MemoryBlock>& blocks() const {
    return blocks_;
  }  // active, by address
  std::map<std::int64_t, MemoryBlock>& blocks() { return blocks_; }
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
  std::map<std::int64_t, MemoryBlock> blocks_;
};

}  // namespace tidemark
