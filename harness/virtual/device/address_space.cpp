#include "harness/virtual/device/address_space.h"

#include <sys/mman.h>

#include <cstdio>

namespace tidemark::device {
namespace {

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

constexpr std::size_t kTiB = std::size_t{1} << 40;

// Free on x86-64 with and without randomisation (programs lie at 0x55..., libraries at 0x7f...);
// the first is clear of AddressSanitizer's shadow (below 0x1000_8000_0000), the third of
// ThreadSanitizer's.
struct Candidate {
  std::uintptr_t begin;
  std::size_t devices, mappings;  // bytes
};
constexpr Candidate kCandidates[] = {
    {0x200000000000, 32 * kTiB, 20 * kTiB},
    {0x200000000000, 2 * kTiB, 4 * kTiB},
    {0x7e8100000000, kTiB / 4, kTiB / 8},
    {0x300000000000, kTiB / 8, kTiB / 8},
};

void* reserve(std::uintptr_t at, std::size_t bytes, int extra) {
  return mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra, -1, 0);
}

struct Reservation {
  Span devices, mappings;

  Reservation() {
    for (const Candidate& c : kCandidates) {
      void* got = reserve(c.begin, c.devices + c.mappings, MAP_FIXED_NOREPLACE);
      if (got == MAP_FAILED) continue;
      if (reinterpret_cast<std::uintptr_t>(got) == c.begin) {
        take(c.begin, c.devices, c.mappings);
        return;
      }
      munmap(got, c.devices + c.mappings);  // a kernel that does not know the flag
    }
    // Last resort: anywhere. Peaks may then depend on the address-space layout.
    for (std::size_t bytes = 4 * kTiB; bytes >= kTiB / 64; bytes /= 2) {
      void* got = reserve(0, bytes + kGranule, 0);
      if (got == MAP_FAILED) continue;
      std::fprintf(
          stderr,
          "tidemark: the fixed range for device memory is taken; addresses are not reproducible\n");
      take(round_up(reinterpret_cast<std::uintptr_t>(got), kGranule), bytes / 2, bytes / 2);
      return;
    }
  }

  void take(std::uintptr_t begin, std::size_t for_devices, std::size_t for_mappings) {
    devices = {begin, for_devices};
    mappings = {begin + for_devices, for_mappings};
    madvise(reinterpret_cast<void*>(begin), for_devices + for_mappings, MADV_DONTDUMP);
  }
};

const Reservation& reservation() {
  static const Reservation& instance = *new Reservation;
  return instance;
}

}  // namespace

std::uintptr_t Ranges::take(std::size_t bytes, std::size_t alignment) {
  for (const auto& [begin, size] : free_) {
    const std::uintptr_t at = round_up(begin, alignment);
    if (at - begin <= size && size - (at - begin) >= bytes && take_at(at, bytes)) return at;
  }
  return 0;
}

std::uintptr_t Ranges::take_smallest(std::size_t bytes) {
  auto best = free_.end();
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if (range->second >= bytes && (best == free_.end() || range->second < best->second))
      best = range;
  if (best == free_.end()) return 0;
  const std::uintptr_t at = best->first;
  take_at(at, bytes);
  return at;
}

std::uintptr_t Ranges::take_highest(std::size_t bytes, std::size_t room) {
  for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
    if (range->second < room) continue;
    const std::uintptr_t at = range->first + range->second - bytes;
    take_at(at, bytes);
    return at;
  }
  return 0;
}

bool Ranges::take_at(std::uintptr_t begin, std::size_t bytes) {
  auto found = free_.upper_bound(begin);
  if (found == free_.begin()) return false;
  const auto [low, size] = *--found;
  const std::uintptr_t high = low + size;
  if (begin + bytes > high || begin + bytes < begin) return false;
  free_.erase(found);
  if (begin > low) free_.emplace(low, begin - low);
  if (begin + bytes < high) free_.emplace(begin + bytes, high - begin - bytes);
  return true;
}

void Ranges::give(std::uintptr_t begin, std::size_t bytes) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

Span device_span(int device, int devices) {
  const Span all = reservation().devices;
  const std::size_t each = all.bytes / static_cast<std::size_t>(devices) / kGranule * kGranule;
  return {all.begin + each * static_cast<std::size_t>(device), each};
}

Span mapping_span() { return reservation().mappings; }

bool commit(std::uintptr_t begin, std::size_t bytes) {
  return mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE) == 0;
}

void decommit(std::uintptr_t begin, std::size_t bytes) {
  void* at = reinterpret_cast<void*>(begin);
  madvise(at, bytes, MADV_DONTNEED);
  mprotect(at, bytes, PROT_NONE);
}

}  // namespace tidemark::device
