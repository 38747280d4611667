#include "harness/virtual/device/address_space.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ranges>

#include "harness/virtual/device/immortal.h"

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

// A file of no folder, without pages until they are written.
int make_file() {
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < kFileBytes) return -1;
  const int file = memfd_create("tidemark device memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kFileBytes) == 0) return file;
  close(file);
  return -1;
}

struct Reservation {
  Span devices, mappings;
  int file = make_file();

  void* reserve(std::uintptr_t at, std::size_t bytes, int extra) const {
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    return mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE, kind | MAP_NORESERVE | extra, file,
                0);
  }

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

  // A forked process has memory of its own; else it and its parent would write into each other's.
  void begin_in_fork() {
    if (file < 0) return;
    close(file);
    file = make_file();
    const std::size_t bytes = devices.bytes + mappings.bytes;
    reserve(devices.begin, bytes, MAP_FIXED);
    madvise(reinterpret_cast<void*>(devices.begin), bytes, MADV_DONTDUMP);
  }

  void take(std::uintptr_t begin, std::size_t for_devices, std::size_t for_mappings) {
    devices = {begin, for_devices};
    mappings = {begin + for_devices, for_mappings};
    madvise(reinterpret_cast<void*>(begin), for_devices + for_mappings, MADV_DONTDUMP);
  }
};

Reservation& reservation() {
  static const int at_fork =
      pthread_atfork(nullptr, nullptr, [] { immortal<Reservation>().begin_in_fork(); });
  (void)at_fork;
  return immortal<Reservation>();
}

}  // namespace

void ByteSet::add(std::uintptr_t begin, std::uintptr_t end) {
  if (begin >= end) return;
  remove(begin, end);
  bytes_ += end - begin;
  auto next = ends_.lower_bound(begin);
  if (next != ends_.end() && next->first == end) {
    end = next->second;
    next = ends_.erase(next);
  }
  if (next != ends_.begin()) {
    const auto before = std::prev(next);
    if (before->second == begin) {
      before->second = end;
      return;
    }
  }
  ends_.emplace_hint(next, begin, end);
}

void ByteSet::remove(std::uintptr_t begin, std::uintptr_t end) {
  if (begin >= end) return;
  auto at = ends_.upper_bound(begin);
  if (at != ends_.begin() && std::prev(at)->second > begin) --at;
  while (at != ends_.end() && at->first < end) {
    const auto [first, last] = *at;
    at = ends_.erase(at);
    bytes_ -= std::min(last, end) - std::max(first, begin);
    if (first < begin) ends_.emplace_hint(at, first, begin);
    if (last > end) ends_.emplace_hint(at, end, last);
  }
}

bool ByteSet::covers(std::uintptr_t begin, std::uintptr_t end) const {
  if (begin >= end) return true;
  const auto after = ends_.upper_bound(begin);
  return after != ends_.begin() && std::prev(after)->second >= end;
}

std::vector<ByteSet::Range> ByteSet::within(std::uintptr_t begin, std::uintptr_t end) const {
  std::vector<Range> parts;
  auto at = ends_.upper_bound(begin);
  if (at != ends_.begin()) --at;
  for (; at != ends_.end() && at->first < end; ++at) {
    const Range part{std::max(begin, at->first), std::min(end, at->second)};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

std::uintptr_t Ranges::take(std::size_t bytes, std::size_t alignment) {
  for (const auto& [begin, end] : free_.all()) {
    const std::uintptr_t at = round_up(begin, alignment);
    if (at <= end && end - at >= bytes && take_at(at, bytes)) return at;
  }
  return 0;
}

std::uintptr_t Ranges::take_smallest(std::size_t bytes) {
  std::uintptr_t best = 0;
  std::size_t best_size = 0;
  for (const auto& [begin, end] : free_.all()) {
    const std::size_t size = end - begin;
    if (size < bytes || (best != 0 && size >= best_size)) continue;
    best = begin;
    best_size = size;
  }
  if (best != 0) take_at(best, bytes);
  return best;
}

std::uintptr_t Ranges::take_highest(std::size_t bytes, std::size_t room) {
  for (const auto& [begin, end] : free_.all() | std::views::reverse) {
    if (end - begin < room) continue;
    const std::uintptr_t at = end - bytes;
    take_at(at, bytes);
    return at;
  }
  return 0;
}

bool Ranges::take_at(std::uintptr_t begin, std::size_t bytes) {
  const std::uintptr_t end = begin + bytes;
  if (end < begin || !free_.covers(begin, end)) return false;
  free_.remove(begin, end);
  return true;
}

Span device_span(int device, int devices) {
  const Span all = reservation().devices;
  const std::size_t each = all.bytes / static_cast<std::size_t>(devices) / kGranule * kGranule;
  return {all.begin + each * static_cast<std::size_t>(device), each};
}

bool is_cramped() { return reservation().mappings.bytes < kCandidates[0].mappings; }

Span mapping_span() { return reservation().mappings; }

bool commit(std::uintptr_t begin, std::size_t bytes) {
  return mprotect(reinterpret_cast<void*>(begin), bytes, PROT_READ | PROT_WRITE) == 0;
}

void decommit(std::uintptr_t begin, std::size_t bytes) {
  void* at = reinterpret_cast<void*>(begin);
  if (memory_file() < 0)
    madvise(at, bytes, MADV_DONTNEED);
  else
    discard_in_file(place_in_file(begin), bytes);
  mprotect(at, bytes, PROT_NONE);
}

int memory_file() { return reservation().file; }

std::uint64_t place_in_file(std::uintptr_t address) {
  return address - reservation().devices.begin;
}

void discard_in_file(std::uint64_t place, std::size_t bytes) {
  fallocate(reservation().file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(place), static_cast<off_t>(bytes));
}

}  // namespace tidemark::device
