// Addresses of device allocations within a device's range. PyTorch's caching allocator reuses, of
// free blocks of one size, the one with the lowest address, so the order of addresses decides which
// block is taken. README.md says what each rule is derived from and what it does not explain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string_view>

#include "harness/virtual/device/address_space.h"

namespace tidemark::device {

/// Sizes are multiples of kGranule.
class Placement {
 public:
  virtual ~Placement() = default;
  /// The address of a new allocation, or 0 where no range is long enough.
  virtual std::uintptr_t take(std::size_t bytes) = 0;
  virtual void give(std::uintptr_t begin, std::size_t bytes) = 0;
  /// A launch or use for which the driver takes memory of its own. A kernel has its mangled name.
  virtual void launched(std::string_view) {}
  enum class Library { handle, bf16_product };  // of cuBLAS
  virtual void used(Library) {}
};

/// "linux", "wsl2", "wsl2:FIRST,SECOND" or "ascending"; null for another name.
std::unique_ptr<Placement> make_placement(std::string_view name, Span span);

/// The driver under Linux. Address space is taken downwards, in chunks that begin and end at
/// multiples of kChunk, each from the highest hole that has kChunk more than it needs. An
/// allocation first goes into the newest chunk with a gap that is long enough, into the shortest
/// such gap of that chunk. A chunk without allocations is given back.
class LinuxPlacement : public Placement {
 public:
  static constexpr std::size_t kChunk = std::size_t{32} << 20;
  explicit LinuxPlacement(Span span);
  std::uintptr_t take(std::size_t bytes) override;
  void give(std::uintptr_t begin, std::size_t bytes) override;

 private:
  struct Chunk {
    std::uintptr_t begin;
    std::size_t bytes, used = 0;
    Ranges gaps;
  };
  Ranges holes_;
  std::list<Chunk> chunks_;  // newest first
};

/// No driver's: upwards, the first range that is long enough.
class AscendingPlacement : public Placement {
 public:
  explicit AscendingPlacement(Span span) : free_(span.begin, span.bytes) {}
  std::uintptr_t take(std::size_t bytes) override { return free_.take(bytes, kGranule); }
  void give(std::uintptr_t begin, std::size_t bytes) override { free_.give(begin, bytes); }

 protected:
  Ranges free_;
};

/// The driver under WSL2 and Windows: upwards, the first range that is long enough, for the program
/// and for itself. At first it holds `first` bytes below all else. The first kernel that is more
/// than random numbers takes `second` bytes, and gives those back (stacks of all threads,
/// probably). The first kernel of any kind, handles and products take what README.md lists.
class Wsl2Placement : public AscendingPlacement {
 public:
  struct Held {
    std::size_t first, second;  // bytes, of the GPU of a recording
  };
  Wsl2Placement(Span span, Held driver_bytes);
  void launched(std::string_view kernel) override;
  void used(Library what) override;

 private:
  void hold(std::size_t bytes) { free_.take(bytes, kGranule); }
  const Span first_;
  const std::size_t second_;
  bool any_kernel_ = false, resized_ = false, any_handle_ = false, any_product_ = false;
};

/// Places that the program dictates, for replays of recordings; the highest range if it dictates
/// none, or one that is not free.
class DictatedPlacement : public AscendingPlacement {
 public:
  using AscendingPlacement::AscendingPlacement;
  std::uintptr_t take(std::size_t bytes) override;
  std::uintptr_t next = 0;  // 0: none
};

}  // namespace tidemark::device
