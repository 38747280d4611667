// Virtual memory management: what PyTorch's expandable segments stand on.
#include "harness/virtual/device/mapping.h"

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;

namespace {

// Only plain device memory exists.
cudaError_t check(const CUmemAllocationProp* p) {
  if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED) return cudaErrorInvalidValue;
  if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    device::not_supported("libcuda", "cuMemCreate of host memory");
    return cudaErrorNotSupported;
  }
  // PyTorch tries fabric handles (the device's attributes deny them) and then asks for file
  // descriptors, in case they are exported.
  return p->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? cudaErrorNotSupported
                                                                             : cudaSuccess;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* p,
                                       CUmemAllocationGranularity_flags) {
  return answer([&] { return p ? device::give(bytes, device::kGranule) : cudaErrorInvalidValue; });
}
CUresult cuMemAddressReserve(CUdeviceptr* begin, size_t bytes, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags) {
  return answer([&] {
    if (!begin || flags) return cudaErrorInvalidValue;
    std::uintptr_t got = 0;
    const cudaError_t error = device::reserve_addresses(&got, bytes, alignment, wish);
    *begin = got;
    return error;
  });
}
CUresult cuMemAddressFree(CUdeviceptr begin, size_t bytes) {
  return answer(device::free_addresses, begin, bytes);
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* p, unsigned long long flags) {
  return answer([&] {
    if (!handle || flags) return cudaErrorInvalidValue;
    if (cudaError_t error = check(p)) return error;
    std::uint64_t made = 0;
    const cudaError_t error = device::create_physical(&made, bytes, p->location.id);
    *handle = made;
    return error;
  });
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return answer(device::release_physical, handle);
}
CUresult cuMemMap(CUdeviceptr begin, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return answer([&] {
    return flags ? cudaErrorInvalidValue : device::map_physical(begin, bytes, offset, handle);
  });
}
CUresult cuMemUnmap(CUdeviceptr begin, size_t bytes) {
  return answer(device::unmap_physical, begin, bytes);
}
CUresult cuMemSetAccess(CUdeviceptr begin, size_t bytes, const CUmemAccessDesc* descriptions,
                        size_t count) {
  return answer([&] {
    if (!descriptions || count == 0) return cudaErrorInvalidValue;
    // One process: every device that may access it lies in this address space.
    bool readable = false, writable = false;
    for (size_t i = 0; i < count; ++i) {
      readable |= descriptions[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      writable |= descriptions[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return device::set_access(begin, bytes, readable, writable);
  });
}
// File descriptors alone (`check`).
CUresult cuMemExportToShareableHandle(void* to, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  return answer([&] {
    if (!to || flags) return cudaErrorInvalidValue;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return cudaErrorNotSupported;
    return device::export_physical(handle, static_cast<int*>(to));
  });
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* from,
                                        CUmemAllocationHandleType type) {
  return answer([&] {
    if (!handle) return cudaErrorInvalidValue;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return cudaErrorNotSupported;
    std::uint64_t made = 0;
    const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(from));
    const cudaError_t error = device::import_physical(&made, descriptor);
    *handle = made;
    return error;
  });
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return answer([&] {
    std::uint64_t physical = 0;
    const cudaError_t error =
        device::retain_physical(&physical, reinterpret_cast<std::uintptr_t>(address));
    if (handle) *handle = physical;
    return handle ? error : cudaErrorInvalidValue;
  });
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* p,
                                                CUmemGenericAllocationHandle handle) {
  return answer([&] {
    if (!p) return cudaErrorInvalidValue;
    *p = {};
    p->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return device::physical_device(handle, &p->location.id);
  });
}
