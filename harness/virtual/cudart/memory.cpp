#include "harness/virtual/device/memory.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "harness/virtual/device/device.h"
#include "harness/virtual/device/failure.h"

namespace device = tidemark::device;
using device::call;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  return call(device::allocate, address, bytes);
}
cudaError_t cudaFree(void* address) {
  return call(device::is_managed(address) ? device::release_managed : device::release, address);
}
cudaError_t cudaMemGetInfo(size_t* left, size_t* total) {
  return call(device::memory_left, left, total);
}

cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
  return call([&] {
    if (!pitch) return cudaErrorInvalidValue;
    *pitch = (width + 511) / 512 * 512;
    return device::allocate(address, *pitch * height);
  });
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  return call(device::allocate_pinned, address, bytes, flags);
}
cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return call(device::allocate_pinned, address, bytes, 0);
}
cudaError_t cudaFreeHost(void* address) { return call(device::release_pinned, address); }
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  return call(device::register_pinned, address, bytes, flags);
}
cudaError_t cudaHostUnregister(void* address) { return call(device::unregister_pinned, address); }
cudaError_t cudaHostGetFlags(unsigned* flags, void* address) {
  return call(device::pinned_flags, address, flags);
}
cudaError_t cudaHostGetDevicePointer(void** on_device, void* on_host, unsigned flags) {
  return call([&] {  // unified addressing: they are the same
    return flags || !device::is_pinned(on_host) ? cudaErrorInvalidValue
                                                : device::give(on_device, on_host);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* address) {
  return call([&] {
    if (!a) return cudaErrorInvalidValue;
    std::memset(a, 0, sizeof *a);
    void* const plain = const_cast<void*>(address);
    a->device = device::device_of(address);
    if (a->device >= 0) {
      a->type = cudaMemoryTypeDevice;
      a->devicePointer = plain;
    } else if (device::is_pinned(address)) {
      a->type = device::is_managed(address) ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
      a->device = 0;
      a->devicePointer = a->hostPointer = plain;
    } else {
      a->type = cudaMemoryTypeUnregistered;
      a->hostPointer = plain;
    }
    return cudaSuccess;
  });
}
