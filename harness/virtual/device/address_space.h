// Addresses of device memory: one fixed range of this process's address space, so that an address
// depends on the program alone and not on the loader's randomisation. Reserved without memory
// behind it; pages come when memory is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace tidemark::device {

inline constexpr std::size_t kGranule = std::size_t{2} << 20;
/// The largest page of any Linux that runs this, in bytes: 4 KiB on x86-64, up to 64 KiB on
/// aarch64.
inline constexpr std::size_t kPage = 64 << 10;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Ranges of addresses, merged. Not thread-safe.
class ByteSet {
 public:
  struct Range {
    std::uintptr_t begin, end;
  };
  void add(std::uintptr_t begin, std::uintptr_t end);
  void remove(std::uintptr_t begin, std::uintptr_t end);
  bool covers(std::uintptr_t begin, std::uintptr_t end) const;
  /// Parts of [begin, end) that are in the set, in ascending order.
  std::vector<Range> within(std::uintptr_t begin, std::uintptr_t end) const;
  std::uint64_t bytes() const { return bytes_; }
  /// End by begin.
  const std::map<std::uintptr_t, std::uintptr_t>& all() const { return ends_; }

 private:
  std::map<std::uintptr_t, std::uintptr_t> ends_;  // by begin
  std::uint64_t bytes_ = 0;
};

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
  void give(std::uintptr_t begin, std::size_t bytes) { free_.add(begin, begin + bytes); }

 private:
  ByteSet free_;
};

/// The entry of a map by begin that holds `address`, or the end; `bytes` of an entry is its length.
template <class Map, class Bytes>
auto holding(Map& map, std::uintptr_t address, const Bytes& bytes) {
  auto entry = map.upper_bound(address);
  if (entry == map.begin()) return map.end();
  --entry;
  return address - entry->first < std::invoke(bytes, entry->second) ? entry : map.end();
}

/// A device's share of the range: [begin, begin + bytes).
struct Span {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
Span device_span(int device, int devices);
/// The share of virtual memory management (cuMemAddressReserve), common to all devices.
Span mapping_span();

/// True if the host has not had room for the usual range: what does not fit in it is no limit of a
/// device.
bool is_cramped();

/// Makes pages readable and writable (zero), or takes them back. False: the system refuses.
bool commit(std::uintptr_t begin, std::size_t bytes);
void decommit(std::uintptr_t begin, std::size_t bytes);

/// The file behind the range, which other processes may map (shared.h); -1 where the system's limit
/// on the length of files does not permit one. A forked process has a new one. An address has its
/// place there whatever is mapped at it: the places of the addresses of virtual memory management
/// belong to physical memory.
int memory_file();
std::uint64_t place_in_file(std::uintptr_t address);
/// Behind the places of all addresses, so many bytes at each distance: shared.h.
inline constexpr std::uint64_t kFilePart = std::uint64_t{1} << 46;
inline constexpr std::uint64_t kFileBytes = 5 * kFilePart;
/// Gives pages of the file back to the system.
void discard_in_file(std::uint64_t place, std::size_t bytes);

}  // namespace tidemark::device
