// Which blocks are read again after the moments at which reports ask for that, and which of them
// Python's collector frees.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>

#include "harness/virtual/recorder/follower.h"

namespace tidemark::recorder {

/// The boundaries are the moments that reports ask about: those that `bound` is called at, and each
/// highest level of a device's active memory, as requested.
class Uses {
 public:
  void bound() { ++boundaries_; }
  /// An event of the allocator is to come.
  void before(const AllocatorEntry& entry);
  /// The block at the address was made in a forward, or is computed from one that was.
  void made_in_forward(std::uint64_t begin);
  bool is_of_forward(std::uint64_t address) {
    const auto at = around(address);
    return at != blocks_.end() && at->second.of_forward;
  }
  /// The block around the address is of this kind.
  void labelled(std::uint64_t address, std::string_view kind);
  /// Gradients, and what operators outside modules compute from them.
  bool is_of_gradient(std::uint64_t address) {
    const auto at = around(address);
    return at != blocks_.end() && at->second.of_gradient;
  }
  /// The block at `output` is computed from the one at `source`, which is of a gradient. Where both
  /// are the same: its contents are overwritten. False: nothing is to be written of it. Of two
  /// blocks from before the step the record needs two steps, to know what lives across steps.
  bool computed_from(std::uint64_t output, std::uint64_t source);
  /// A backward has ended.
  void begin_step() { ++step_, born_before_ = allocations_; }
  /// Calls first(begin of the block) for the block around the address if a boundary lies between
  /// this read and the read or the allocation before it. Address 0: for all such blocks.
  template <class First>
  void read(std::uint64_t address, First first) {
    if (address == 0) {
      for (auto& [begin, block] : blocks_) read(begin, block, first);
    } else if (const auto at = around(address); at != blocks_.end()) {
      read(at->first, at->second, first);
    }
  }

  /// Which allocation of the process has made the block that begins there; 0: none is there.
  std::int64_t born(std::uint64_t address) const {
    const auto block = blocks_.find(address);
    return block == blocks_.end() ? 0 : block->second.born;
  }

 private:
  struct Block {
    std::uint64_t end = 0;   // an address
    std::uint64_t read = 0;  // boundaries before its last read that was told, or its allocation
    std::int64_t born = 0;   // allocations until then, with its own
    bool of_forward = false;
    bool of_gradient = false, is_gradient = false, is_parameter = false;
    struct Told {
      std::int64_t step = 0;
      int steps = 0;
    };
    std::map<std::int64_t, Told> told;  // by when the block was born that is computed from it
  };
  using Blocks = std::map<std::uint64_t, Block>;  // by address

  /// The block around the address, or the end.
  Blocks::iterator around(std::uint64_t address);
  template <class First>
  void read(std::uint64_t begin, Block& block, First first) {
    if (block.read == boundaries_) return;
    block.read = boundaries_;
    first(begin);
  }

  std::uint64_t boundaries_ = 0;
  std::int64_t allocations_ = 0;
  std::int64_t step_ = 0, born_before_ = 0;  // backwards that have ended; allocations until then
  Blocks blocks_;                            // what the program has not freed
  std::array<std::int64_t, kDevices> active_{}, highest_{};
};

}  // namespace tidemark::recorder
