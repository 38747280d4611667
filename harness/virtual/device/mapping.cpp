#include "harness/virtual/device/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/host_limit.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {
namespace {

// Physical memory is a range of a file, this process's own or another's: it keeps its content while
// unmapped and may be mapped twice.
struct Physical {
  std::size_t bytes;
  int device;
  int file;
  std::uint64_t file_offset;
  bool shared = false;  // with other processes
  int references = 1, mappings = 0;

  bool imported() const { return file != memory_file(); }
};

struct Mapping {
  std::size_t bytes, offset;
  std::uint64_t handle;
  bool readable = false;
};
using Mappings = std::map<std::uintptr_t, Mapping>;

struct State {
  Ranges addresses{mapping_span().begin, mapping_span().bytes};
  Ranges offsets{place_in_file(mapping_span().begin), mapping_span().bytes};
  std::map<std::uintptr_t, std::size_t> reserved;
  std::map<std::uint64_t, Physical> physical;
  Mappings mapped;
  std::uint64_t next_handle = 0x100;
};

State& state() { return immortal<State>(); }

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

bool in_reservation(const State& s, std::uintptr_t begin, std::size_t bytes) {
  const auto reservation = holding(s.reserved, begin, std::identity());
  return reservation != s.reserved.end() &&
         begin + bytes <= reservation->first + reservation->second;
}

bool is_mapped_in_part(const State& s, std::uintptr_t begin, std::size_t bytes) {
  const auto next = s.mapped.lower_bound(begin + bytes);
  return next != s.mapped.begin() && std::prev(next)->first + std::prev(next)->second.bytes > begin;
}

// The mappings along a range; none where there is a gap.
std::vector<Mappings::iterator> along(State& s, std::uintptr_t begin, std::size_t bytes) {
  std::vector<Mappings::iterator> all;
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    const auto mapping = holding(s.mapped, at, &Mapping::bytes);
    if (mapping == s.mapped.end()) return {};
    all.push_back(mapping);
    at = mapping->first + mapping->second.bytes;
  }
  return all;
}

void drop_if_unused(State& s, std::map<std::uint64_t, Physical>::iterator p) {
  if (p->second.references > 0 || p->second.mappings > 0) return;
  const Physical& one = p->second;
  if (one.imported()) {
    close(one.file);
  } else {
    engine().memory_of(one.device).refund(one.bytes);
    if (!one.shared) {
      discard_in_file(one.file_offset, one.bytes);
      s.offsets.give(one.file_offset, one.bytes);
    }
  }
  s.physical.erase(p);
}

}  // namespace

cudaError_t reserve_addresses(std::uintptr_t* begin, std::size_t bytes, std::size_t alignment,
                              std::uintptr_t wish) {
  if (!begin || bytes == 0 || bytes % kGranule || (alignment & (alignment - 1)))
    return cudaErrorInvalidValue;
  std::lock_guard lock(engine().mutex);
  State& s = state();
  *begin = wish && wish % kGranule == 0 && s.addresses.take_at(wish, bytes)
               ? wish
               : s.addresses.take(bytes, std::max(alignment, kGranule));
  if (!*begin && is_cramped()) host_refuses("addresses for the virtual GPU", bytes);
  if (!*begin) return cudaErrorMemoryAllocation;
  s.reserved[*begin] = bytes;
  return cudaSuccess;
}

cudaError_t free_addresses(std::uintptr_t begin, std::size_t bytes) {
  std::lock_guard lock(engine().mutex);
  State& s = state();
  auto reservation = s.reserved.find(begin);
  if (reservation == s.reserved.end() || reservation->second != bytes) return cudaErrorInvalidValue;
  if (is_mapped_in_part(s, begin, bytes)) return cudaErrorInvalidValue;
  s.reserved.erase(reservation);
  s.addresses.give(begin, bytes);
  return cudaSuccess;
}

cudaError_t create_physical(std::uint64_t* handle, std::size_t bytes, int device) {
  if (!handle || bytes == 0 || bytes % kGranule) return cudaErrorInvalidValue;
  auto [e, lock] = locked_for_host();
  if (device < 0 || device >= e.devices) return cudaErrorInvalidDevice;
  State& s = state();
  if (memory_file() < 0) return cudaErrorOperatingSystem;
  count_activity(e, false);
  e.now += e.profile.allocate;
  DeviceMemory& memory = e.memory_of(device);
  if (!memory.charge(bytes)) return cudaErrorMemoryAllocation;
  const std::uint64_t offset = s.offsets.take(bytes, kGranule);
  if (!offset) {
    memory.refund(bytes);
    return cudaErrorMemoryAllocation;
  }
  *handle = s.next_handle++;
  s.physical.emplace(*handle, Physical{bytes, device, memory_file(), offset});
  return cudaSuccess;
}

cudaError_t release_physical(std::uint64_t handle) {
  std::lock_guard lock(engine().mutex);
  State& s = state();
  auto physical = s.physical.find(handle);
  if (physical == s.physical.end() || physical->second.references == 0)
    return cudaErrorInvalidValue;
  --physical->second.references;
  drop_if_unused(s, physical);
  return cudaSuccess;
}

cudaError_t map_physical(std::uintptr_t begin, std::size_t bytes, std::size_t offset,
                         std::uint64_t handle) {
  std::lock_guard lock(engine().mutex);
  State& s = state();
  auto physical = s.physical.find(handle);
  if (physical == s.physical.end()) return cudaErrorInvalidValue;
  Physical& p = physical->second;
  if (bytes == 0 || begin % kGranule || bytes % kGranule || offset % kGranule || offset > p.bytes ||
      bytes > p.bytes - offset || !in_reservation(s, begin, bytes) ||
      is_mapped_in_part(s, begin, bytes)) {
    return cudaErrorInvalidValue;
  }
  if (mmap(pointer(begin), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, p.file,
           static_cast<off_t>(p.file_offset + offset)) == MAP_FAILED) {
    host_refuses("address space for memory of the virtual GPU", bytes);
  }
  if (p.shared && !share_known(begin, bytes, p.file, p.file_offset + offset))
    host_refuses("memory that processes share", bytes);
  ++p.mappings;
  s.mapped.emplace(begin, Mapping{bytes, offset, handle});
  return cudaSuccess;
}

cudaError_t unmap_physical(std::uintptr_t begin, std::size_t bytes) {
  auto [e, lock] = locked();
  State& s = state();
  const auto whole = along(s, begin, bytes);
  if (whole.empty() || whole.front()->first != begin ||
      whole.back()->first + whole.back()->second.bytes != begin + bytes)
    return cudaErrorInvalidValue;
  e.now += e.profile.release;
  for (const auto& one : whole) unshare_known(one->first);
  mark_known(pointer(begin), bytes, false);
  if (mmap(pointer(begin), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    host_refuses("address space for memory of the virtual GPU", bytes);
  for (const auto& one : whole) {
    const auto physical = s.physical.find(one->second.handle);
    s.mapped.erase(one);
    --physical->second.mappings;
    drop_if_unused(s, physical);
  }
  return cudaSuccess;
}

cudaError_t set_access(std::uintptr_t begin, std::size_t bytes, bool readable, bool writable) {
  std::lock_guard lock(engine().mutex);
  State& s = state();
  const auto mappings = along(s, begin, bytes);
  if (mappings.empty()) return cudaErrorInvalidValue;
  const int protection = (readable ? PROT_READ : PROT_NONE) | (writable ? PROT_WRITE : PROT_NONE);
  if (mprotect(pointer(begin), bytes, protection) != 0)
    host_refuses("memory for the virtual GPU", bytes);
  for (const auto& one : mappings) one->second.readable = readable;
  return cudaSuccess;
}

cudaError_t retain_physical(std::uint64_t* handle, std::uintptr_t address) {
  std::lock_guard lock(engine().mutex);
  State& s = state();
  const auto mapping = holding(s.mapped, address, &Mapping::bytes);
  if (!handle || mapping == s.mapped.end()) return cudaErrorInvalidValue;
  *handle = mapping->second.handle;
  ++s.physical.at(*handle).references;
  return cudaSuccess;
}

cudaError_t physical_device(std::uint64_t handle, int* device) {
  std::lock_guard lock(engine().mutex);
  auto physical = state().physical.find(handle);
  if (!device || physical == state().physical.end()) return cudaErrorInvalidValue;
  *device = physical->second.device;
  return cudaSuccess;
}

cudaError_t export_physical(std::uint64_t handle, int* descriptor) {
  const std::lock_guard lock(engine().mutex);
  State& s = state();
  const auto physical = s.physical.find(handle);
  if (!descriptor || physical == s.physical.end()) return cudaErrorInvalidValue;
  Physical& p = physical->second;
  if (p.imported()) return cudaErrorNotSupported;
  SharedHandle shared_handle{.device = p.device, .place = p.file_offset, .bytes = p.bytes};
  if (!share(shared_handle)) return cudaErrorNotSupported;
  *descriptor = open_at(shared_handle);
  if (*descriptor < 0) return cudaErrorOperatingSystem;
  p.shared = true;
  for (const auto& [begin, one] : s.mapped)
    if (one.handle == handle && !share_known(begin, one.bytes, p.file, p.file_offset + one.offset))
      host_refuses("memory that processes share", one.bytes);
  return cudaSuccess;
}

cudaError_t import_physical(std::uint64_t* handle, int descriptor) {
  if (!handle) return cudaErrorInvalidValue;
  SharedHandle shared_handle;
  if (!read_at(descriptor, shared_handle)) return cudaErrorInvalidValue;
  const int file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return cudaErrorOperatingSystem;
  const std::lock_guard lock(engine().mutex);
  State& s = state();
  *handle = s.next_handle++;
  s.physical.emplace(*handle, Physical{shared_handle.bytes, device_here(shared_handle.device), file,
                                       shared_handle.place, true});
  return cudaSuccess;
}

std::uintptr_t map_shared(int file, std::uint64_t place, std::size_t bytes, int device) {
  std::uint64_t handle = 0;
  std::uintptr_t begin = 0;
  {
    const std::lock_guard lock(engine().mutex);
    State& s = state();
    begin = s.addresses.take_highest(bytes, bytes);
    if (!begin) return 0;
    s.reserved[begin] = bytes;
    handle = s.next_handle++;
    s.physical.emplace(handle, Physical{bytes, device, file, place, true});
  }
  const bool mapped = map_physical(begin, bytes, 0, handle) == cudaSuccess &&
                      set_access(begin, bytes, true, true) == cudaSuccess;
  release_physical(handle);
  if (!mapped) free_addresses(begin, bytes);
  return mapped ? begin : 0;
}

void unmap_shared(std::uintptr_t begin) {
  std::size_t bytes = 0;
  if (!mapped_range(begin, &begin, &bytes)) return;
  unmap_physical(begin, bytes);
  free_addresses(begin, bytes);
}

int mapped_device(std::uintptr_t begin, std::size_t bytes) {
  State& s = state();
  const auto all = along(s, begin, bytes);
  if (all.empty() || !std::ranges::all_of(all, [](auto one) { return one->second.readable; }))
    return -1;
  return s.physical.at(all.front()->second.handle).device;
}

FilePlace place_of_mapped(std::uintptr_t address) {
  State& s = state();
  const auto mapping = holding(s.mapped, address, &Mapping::bytes);
  if (mapping == s.mapped.end())
    return memory_file() < 0 ? FilePlace{-1, 0} : FilePlace{memory_file(), place_in_file(address)};
  const Physical& p = s.physical.at(mapping->second.handle);
  return {p.file, p.file_offset + mapping->second.offset + (address - mapping->first)};
}

bool mapped_range(std::uintptr_t address, std::uintptr_t* begin, std::size_t* bytes) {
  State& s = state();
  const auto mapping = holding(s.mapped, address, &Mapping::bytes);
  if (mapping == s.mapped.end()) return false;
  *begin = mapping->first;
  *bytes = mapping->second.bytes;
  return true;
}

}  // namespace tidemark::device
