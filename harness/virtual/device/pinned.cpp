#include <sys/mman.h>

#include <map>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/host_limit.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/memory.h"

namespace tidemark::device {
namespace {

struct Pinned {
  std::size_t bytes;
  unsigned flags;
  bool ours;  // allocated here, not merely registered
  bool managed = false;
};

std::map<std::uintptr_t, Pinned>& pinned() { return immortal<std::map<std::uintptr_t, Pinned>>(); }

std::map<std::uintptr_t, Pinned>::iterator around(std::uintptr_t address) {
  return holding(pinned(), address, &Pinned::bytes);
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

namespace {

cudaError_t take(void** address, std::size_t bytes, unsigned flags, bool managed) {
  *address = nullptr;
  auto [e, lock] = locked_for_host();
  if (const cudaError_t error = unsafe_in_capture(nullptr)) return error;
  const std::size_t rounded = round_up(bytes, 4096);
  void* got = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) host_refuses("pinned memory", rounded);
  e.now += e.profile.allocate;
  pinned()[number(got)] = {rounded, flags, true, managed};
  *address = got;
  return cudaSuccess;
}

cudaError_t give_back(void* address, bool managed) {
  if (!address) return cudaSuccess;
  auto [e, lock] = locked();
  const auto find = [&] {
    const auto block = pinned().find(number(address));
    const bool same =
        block != pinned().end() && block->second.ours && block->second.managed == managed;
    return same ? block : pinned().end();
  };
  if (find() == pinned().end()) return cudaErrorInvalidValue;
  if (const cudaError_t error = unsafe_in_capture(nullptr)) return error;
  synchronise_with(lock, e.mark_all(-1));
  --e.synchronisations;  // the program asked for none
  e.now += e.profile.release;
  const auto block = find();
  if (block == pinned().end()) return cudaErrorInvalidValue;
  munmap(address, block->second.bytes);
  pinned().erase(block);
  return cudaSuccess;
}

}  // namespace

cudaError_t allocate_pinned(void** address, std::size_t bytes, unsigned flags) {
  if (!address || (flags & ~7u)) return cudaErrorInvalidValue;
  *address = nullptr;
  return bytes == 0 ? cudaSuccess : take(address, bytes, flags, false);
}

cudaError_t release_pinned(void* address) { return give_back(address, false); }

cudaError_t allocate_managed(void** address, std::size_t bytes, unsigned flags) {
  const bool known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost;
  return !address || bytes == 0 || !known ? cudaErrorInvalidValue : take(address, bytes, 0, true);
}

cudaError_t release_managed(void* address) { return give_back(address, true); }

cudaError_t register_pinned(void* address, std::size_t bytes, unsigned flags) {
  if (!address || bytes == 0) return cudaErrorInvalidValue;
  auto [e, lock] = locked_for_host();
  auto next = pinned().lower_bound(number(address));
  const bool overlaps = around(number(address)) != pinned().end() ||
                        (next != pinned().end() && next->first < number(address) + bytes);
  if (overlaps) return cudaErrorHostMemoryAlreadyRegistered;
  e.now += e.profile.allocate;
  pinned()[number(address)] = {bytes, flags, false};
  return cudaSuccess;
}

cudaError_t unregister_pinned(void* address) {
  auto [e, lock] = locked_for_host();
  auto block = pinned().find(number(address));
  if (block == pinned().end() || block->second.ours) return cudaErrorHostMemoryNotRegistered;
  e.now += e.profile.release;
  pinned().erase(block);
  return cudaSuccess;
}

cudaError_t pinned_flags(void* address, unsigned* flags) {
  std::lock_guard lock(engine().mutex);
  auto block = around(number(address));
  if (!flags || block == pinned().end()) return cudaErrorInvalidValue;
  *flags = block->second.flags;
  return cudaSuccess;
}

bool is_pinned(const void* address) {
  std::lock_guard lock(engine().mutex);
  return around(number(address)) != pinned().end();
}

bool is_managed(const void* address) {
  std::lock_guard lock(engine().mutex);
  const auto block = around(number(address));
  return block != pinned().end() && block->second.managed;
}

}  // namespace tidemark::device
