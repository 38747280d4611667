// The caching allocator's blocks: the present or last owner of an address, and the end of earlier
// owners.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <unordered_map>

namespace tidemark::race {

struct Block {
  std::uint64_t bytes = 0;                 // as asked for
  std::uint32_t stream = 0;                // whose pool it is from
  std::uint32_t allocated = 0, freed = 0;  // phases (Labels::word)
  bool is_freed = false;
};

class Blocks {
 public:
  void clear();
  void allocate(std::uintptr_t begin, std::uint64_t bytes, std::uint32_t stream,
                std::uint32_t phase);
  void free(std::uintptr_t begin, std::uint32_t phase);
  /// Memory that has gone back to the device.
  void forget(std::uintptr_t begin, std::uint64_t bytes);
  /// The block that holds this address, or held it last; 0: none.
  std::uint64_t at(std::uintptr_t address) const;
  /// Null where it is forgotten.
  const Block* find(std::uint64_t id) const;

  /// The latest; ids count up.
  std::uint64_t latest() const { return latest_.load(std::memory_order_relaxed); }
  std::size_t known() const { return known_.size(); }
  /// Drops what is neither an owner nor in `used`.
  template <class Used>
  void keep(const Used& used) {
    std::unordered_map<std::uint64_t, Block> kept;
    const auto keep_one = [&](std::uint64_t id) {
      if (const auto block = known_.find(id); block != known_.end()) kept.emplace(*block);
    };
    for (const auto& [begin, owner] : owners_) keep_one(owner.id);
    for (const std::uint64_t id : used) keep_one(id);
    known_ = std::move(kept);
  }

 private:
  struct Owner {
    std::uintptr_t end;
    std::uint64_t id;
  };
  std::map<std::uintptr_t, Owner> owners_;
  std::unordered_map<std::uint64_t, Block> known_;
  std::atomic<std::uint64_t> latest_{0};  // read without the lock
};

}  // namespace tidemark::race
