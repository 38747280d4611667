// Addresses of device memory: one fixed range of this process's address space, so that an address
// depends on the program alone and not on the loader's randomisation. Reserved without memory
// behind it; pages come when memory is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace tidemark::device {

inline constexpr std::size_t kGranule = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Free ranges by address.
class Ranges {
 public:
  Ranges() = default;
  Ranges(std::uintptr_t begin, std::size_t bytes) { give(begin, bytes); }
  /// The lowest range of so many bytes at this alignment, or 0.
  std::uintptr_t take(std::size_t bytes, std::size_t alignment);
  /// The beginning of the shortest free range that holds `bytes`, or 0.
  std::uintptr_t take_smallest(std::size_t bytes);
  /// The last `bytes` of the highest free range of at least `room` bytes, or 0.
  std::uintptr_t take_highest(std::size_t bytes, std::size_t room);
  /// Exactly this range; false where it is not free.
  bool take_at(std::uintptr_t begin, std::size_t bytes);
  void give(std::uintptr_t begin, std::size_t bytes);

 private:
  std::map<std::uintptr_t, std::size_t> free_;
};

/// A device's share of the range: [begin, begin + bytes).
struct Span {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
Span device_span(int device, int devices);
/// The share of virtual memory management (cuMemAddressReserve), common to all devices.
Span mapping_span();

/// Makes pages readable and writable (zero), or takes them back. False: the system refuses.
bool commit(std::uintptr_t begin, std::size_t bytes);
void decommit(std::uintptr_t begin, std::size_t bytes);

}  // namespace tidemark::device
