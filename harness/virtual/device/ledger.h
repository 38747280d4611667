// Books of a device's memory: what programs take of it and give back, until these are read. With
// the segments of one allocator they tell what lies outside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/virtual/device/control.h"

namespace tidemark::device {

/// The caller holds the engine's lock.
class Ledger {
 public:
  struct Change {
    std::int64_t bytes = 0;
    std::uint64_t address = 0;  // 0: it has none
  };
  /// Bytes that were taken, or (< 0) given back.
  void add(Change change);
  /// A request that the device had no room for.
  void refuse(std::size_t wanted, std::size_t left);

  /// The changes since this was last called, in order, and the last request that was refused among
  /// them. Of more than kMost changes the first ones are two: up to their highest sum, and down.
  std::vector<Change> take(tidemark_refused* refused);

 private:
  static constexpr std::size_t kMost = 4096;
  std::vector<Change> changes_;
  tidemark_refused refused_{};
};

}  // namespace tidemark::device
