#include "harness/virtual/device/ipc.h"

#include <fcntl.h>

#include <cstring>
#include <map>
#include <mutex>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/mapping.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/pool.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {
namespace {

struct Opened {
  std::uintptr_t begin;
  int times = 0;
};
struct Opens {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Opened> by_thing;  // token, serial
};
Opens& opens() { return immortal<Opens>(); }

}  // namespace

cudaError_t memory_handle(cudaIpcMemHandle_t* to, const void* address) {
  if (!to) return cudaErrorInvalidValue;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto [e, lock] = locked();
  for (DeviceMemory* memory : e.memory) {
    const auto allocation = memory->find(value);
    if (allocation == memory->all().end()) continue;
    if (is_pool_memory(value)) return cudaErrorInvalidValue;
    const SharedHandle* const handle = memory->share_at(allocation->first);
    if (!handle) {
      say_once(
          "the system refuses to share device memory with other processes (CUDA IPC): raise the "
          "limit on the length of files (ulimit -f unlimited)");
      return cudaErrorMapBufferObjectFailed;
    }
    std::memset(to, 0, sizeof *to);
    std::memcpy(to, handle, sizeof *handle);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t open_memory(void** address, const cudaIpcMemHandle_t& from, unsigned flags) {
  if (!address || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  if (engine().devices == 0) return cudaErrorNoDevice;
  SharedHandle handle;
  std::memcpy(&handle, &from, sizeof handle);
  if (is_mine(handle)) return cudaErrorDeviceUninitialized;
  Opens& o = opens();
  const std::lock_guard lock(o.mutex);
  const auto thing = std::pair(handle.token, handle.serial);
  auto opened = o.by_thing.find(thing);
  if (opened == o.by_thing.end()) {
    const auto process = find_process(handle);
    if (!process || handle.bytes == 0) return cudaErrorInvalidResourceHandle;
    const int file = fcntl(process->file, F_DUPFD_CLOEXEC, 0);
    if (file < 0) return cudaErrorMapBufferObjectFailed;
    const std::uintptr_t begin =
        map_shared(file, handle.place, handle.bytes, device_here(handle.device));
    if (!begin) return cudaErrorMapBufferObjectFailed;
    opened = o.by_thing.emplace(thing, Opened{begin}).first;
  }
  ++opened->second.times;
  *address = reinterpret_cast<void*>(opened->second.begin);
  return cudaSuccess;
}

cudaError_t close_memory(void* address) {
  Opens& o = opens();
  const std::lock_guard lock(o.mutex);
  for (auto at = o.by_thing.begin(); at != o.by_thing.end(); ++at) {
    if (at->second.begin != reinterpret_cast<std::uintptr_t>(address)) continue;
    if (--at->second.times > 0) return cudaSuccess;
    unmap_shared(at->second.begin);
    o.by_thing.erase(at);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace tidemark::device
