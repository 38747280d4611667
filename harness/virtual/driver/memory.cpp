#include "harness/virtual/device/memory.h"

#include <algorithm>

#include "harness/virtual/device/copy.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;
using device::give;
using device::Rectangle;
using device::Waiting;

namespace {
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult transfer(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, CUstream stream,
                  Waiting waiting) {
  return answer([&] { return device::copy(to, from, bytes, kind, stream, waiting); });
}

CUresult set(CUdeviceptr to, unsigned value, size_t unit, size_t count, CUstream stream) {
  return answer(device::fill, pointer(to), value, unit, Rectangle{.width = unit * count}, stream,
                Waiting::async);
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  return answer([&] {
    if (!address || bytes == 0) return cudaErrorInvalidValue;
    void* got = nullptr;
    const cudaError_t error = device::allocate(&got, bytes);
    *address = reinterpret_cast<CUdeviceptr>(got);
    return error;
  });
}
CUresult cuMemFree(CUdeviceptr address) { return answer(device::release, pointer(address)); }
CUresult cuMemGetInfo(size_t* left, size_t* total) {
  return answer(device::memory_left, left, total);
}
CUresult cuMemGetAddressRange(CUdeviceptr* begin, size_t* bytes, CUdeviceptr address) {
  return answer([&] {
    std::uintptr_t low = 0;
    std::size_t size = 0;
    if (device::allocation_of(pointer(address), &low, &size)) return cudaErrorInvalidValue;
    if (begin) *begin = low;
    if (bytes) *bytes = size;
    return cudaSuccess;
  });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return answer([&] {
    if (!value) return cudaErrorInvalidValue;
    const int owner = device::device_of(pointer(address));
    const bool pinned = owner < 0 && device::is_pinned(pointer(address));
    if (owner < 0 && !pinned) return cudaErrorInvalidValue;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        return give(static_cast<std::uintptr_t*>(value), std::max(owner, 0) + 1);  // a CUcontext
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return give(static_cast<unsigned*>(value),
                    pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return give(static_cast<CUdeviceptr*>(value), address);
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return pinned ? give(static_cast<void**>(value), pointer(address)) : cudaErrorInvalidValue;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return give(static_cast<unsigned*>(value), 0);
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return give(static_cast<int*>(value), std::max(owner, 0));
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
        std::uintptr_t low = 0;
        std::size_t size = 0;
        if (device::allocation_of(pointer(address), &low, &size)) return cudaErrorInvalidValue;
        return give(static_cast<std::uint64_t*>(value),
                    attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? size : low);
      }
      default:
        device::not_supported("libcuda", "cuPointerGetAttribute (this attribute)");
        return cudaErrorNotSupported;
    }
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return transfer(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream, Waiting::async);
}
// A context names nothing that the addresses do not.
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return transfer(pointer(to), pointer(from), bytes, cudaMemcpyDefault, nullptr, Waiting::sync);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                           CUstream stream) {
  return transfer(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream, Waiting::async);
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return transfer(pointer(to), from, bytes, cudaMemcpyHostToDevice, nullptr, Waiting::sync);
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return transfer(to, pointer(from), bytes, cudaMemcpyDeviceToHost, nullptr, Waiting::sync);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return transfer(pointer(to), from, bytes, cudaMemcpyHostToDevice, stream, Waiting::async);
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return transfer(to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream, Waiting::async);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return transfer(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream,
                  Waiting::async);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set(to, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return set(to, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return set(to, value, 4, count, stream);
}
