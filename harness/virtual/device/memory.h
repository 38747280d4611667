// Device memory: capacity in 2 MiB granules, addresses from the device's fixed span (placement.h).
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/device/ledger.h"
#include "harness/virtual/device/placement.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

/// 0 bytes: null and success. cudaErrorMemoryAllocation at capacity.
cudaError_t allocate(void** address, std::size_t bytes);
/// Synchronises the device first, as CUDA does. Null is fine; pool memory too.
cudaError_t release(void* address);
cudaError_t memory_left(std::size_t* left, std::size_t* total);
/// The library is used on the current device: see Wsl2Placement.
void library_used(Placement::Library what);
/// Bytes of a device's capacity that are taken, by the context and NCCL too.
std::size_t memory_used(int device);
/// A communicator is made on a device: the first one takes NCCL's buffers.
void nccl_used(int device);
/// The allocation around `address`.
cudaError_t allocation_of(const void* address, std::uintptr_t* begin, std::size_t* bytes);

/// Pinned host memory.
cudaError_t allocate_pinned(void** address, std::size_t bytes, unsigned flags);
cudaError_t release_pinned(void* address);
cudaError_t register_pinned(void* address, std::size_t bytes, unsigned flags);
cudaError_t unregister_pinned(void* address);
cudaError_t pinned_flags(void* address, unsigned* flags);
/// The pinned range around `address`: false where there is none.
bool is_pinned(const void* address);
/// Managed memory. It lies on the host, and counts for no device: pages move to a GPU when it
/// touches them, and away when it needs the room.
cudaError_t allocate_managed(void** address, std::size_t bytes, unsigned flags);
cudaError_t release_managed(void* address);
bool is_managed(const void* address);

/// Device memory behind a variable of a module: outside the capacity, as a loaded module's is.
void* module_variable(int device, const void* symbol, std::size_t bytes);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {

struct SharedHandle;

/// One device's memory. The caller holds the engine's lock.
class DeviceMemory {
 public:
  /// Throws std::runtime_error where there is no such placement.
  DeviceMemory(int device, int devices, std::string_view placement);

  std::uintptr_t take(std::size_t bytes);  // 0: no room. Committed
  /// Bytes of the allocation that begins here, rounded; 0 where none does.
  std::size_t give(std::uintptr_t begin);
  /// Capacity without addresses, for memory that is mapped elsewhere. False: no room.
  bool charge(std::size_t bytes);
  void refund(std::size_t bytes, std::uintptr_t begin = 0);  // begin: of what has an address
  std::uintptr_t take_module(std::size_t bytes);
  Placement& placement() { return *placement_; }
  std::uintptr_t place_next(std::size_t offset);  // the address; 0: cannot be

  struct Allocation {
    std::size_t bytes;                                     // in granules
    std::size_t requested;                                 // by the program
    std::shared_ptr<const SharedHandle> shared = nullptr;  // with other processes (ipc.h)
  };
  /// The allocation that holds `address`, or the end.
  std::map<std::uintptr_t, Allocation>::const_iterator find(std::uintptr_t address) const;
  /// The handle of the allocation that begins here, which others open from now on; null: the system
  /// refuses.
  const SharedHandle* share_at(std::uintptr_t begin);
  const std::map<std::uintptr_t, Allocation>& all() const { return allocations_; }

  /// Bytes that programs can allocate.
  std::size_t room() const { return capacity - outside - (nccl_used ? for_nccl : 0); }

  const Span span;
  std::size_t capacity = 0, used_ = 0;
  std::size_t outside = 0;   // of the capacity, held by the context
  std::size_t for_nccl = 0;  // likewise by NCCL, from the first communicator on
  bool nccl_used = false;
  Ledger ledger;

 private:
  bool count(std::size_t bytes);  // false: no room. The books do not have it yet
  const int device_;
  std::unique_ptr<Placement> placement_;
  DictatedPlacement* dictated_ = nullptr;  // placement_, from the first place_next on
  Ranges modules_;
  std::map<std::uintptr_t, Allocation> allocations_;
};

/// True if [begin, begin + bytes) lies in memory of a device; which (or -1). Lock held.
int device_holding(std::uintptr_t begin, std::size_t bytes);

}  // namespace tidemark::device
