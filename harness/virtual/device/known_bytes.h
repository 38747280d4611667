// The set of known bytes (known.h). Of memory that is shared with other processes it is kept in the
// file that they share (shared.h): a byte for each byte, 1 where it is known. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "harness/virtual/device/address_space.h"

namespace tidemark::device {

class KnownBytes {
 public:
  void add(std::uintptr_t begin, std::uintptr_t end);
  void remove(std::uintptr_t begin, std::uintptr_t end);
  bool covers(std::uintptr_t begin, std::uintptr_t end) const;
  /// Parts of [begin, end) that are in the set, in ascending order.
  std::vector<ByteSet::Range> within(std::uintptr_t begin, std::uintptr_t end) const;
  /// Number of known bytes that are not shared.
  std::uint64_t bytes() const { return own_.bytes(); }

  /// Shares the range; its known bytes are known to all that share it. False: the system refuses.
  bool share(std::uintptr_t begin, std::size_t bytes, int file, std::uint64_t place);
  /// Nothing of the range is known here any more; in the file it stays.
  void unshare(std::uintptr_t begin);
  /// For this process nothing that is shared is known from now on.
  void distrust_shared() { trusts_shared_ = false; }

 private:
  struct Shared {
    std::size_t bytes;
    unsigned char* known;
    int file;
    std::uint64_t place;  // of `known` in the file
  };
  /// A part of a range that is shared, or (null) not.
  struct Part {
    ByteSet::Range range;
    std::uintptr_t begin = 0;
    const Shared* shared = nullptr;
  };
  std::vector<Part> parts(std::uintptr_t begin, std::uintptr_t end) const;

  ByteSet own_;
  std::map<std::uintptr_t, Shared> shared_;
  bool trusts_shared_ = true;
};

}  // namespace tidemark::device
