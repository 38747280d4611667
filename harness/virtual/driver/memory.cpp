#include "harness/virtual/device/memory.h"

#include "harness/virtual/device/copy.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;
using device::Rectangle;
using device::Waiting;

namespace {
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
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
CUresult cuMemFree(CUdeviceptr address) {
  return answer([&] { return device::release(pointer(address)); });
}
CUresult cuMemGetInfo(size_t* left, size_t* total) {
  return answer([&] { return device::memory_left(left, total); });
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
        *static_cast<CUcontext*>(value) =
            reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(owner < 0 ? 0 : owner) + 1);
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(value) = pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<CUdeviceptr*>(value) = address;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!pinned) return cudaErrorInvalidValue;
        *static_cast<void**>(value) = pointer(address);
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(value) = 0;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(value) = owner < 0 ? 0 : owner;
        return cudaSuccess;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
        std::uintptr_t low = 0;
        std::size_t size = 0;
        if (device::allocation_of(pointer(address), &low, &size)) return cudaErrorInvalidValue;
        *static_cast<std::uint64_t*>(value) =
            attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? size : low;
        return cudaSuccess;
      }
      default:
        device::not_supported("libcuda", "cuPointerGetAttribute (this attribute)");
        return cudaErrorNotSupported;
    }
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return answer([&] {
    return device::copy(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream,
                        Waiting::async);
  });
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return answer([&] {
    return device::copy(pointer(to), from, bytes, cudaMemcpyHostToDevice, nullptr, Waiting::sync);
  });
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return answer([&] {
    return device::copy(to, pointer(from), bytes, cudaMemcpyDeviceToHost, nullptr, Waiting::sync);
  });
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return answer([&] {
    return device::copy(pointer(to), from, bytes, cudaMemcpyHostToDevice, stream, Waiting::async);
  });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return answer([&] {
    return device::copy(to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream, Waiting::async);
  });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return answer([&] {
    return device::copy(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream,
                        Waiting::async);
  });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return answer([&] {
    return device::fill(pointer(to), value, 1, Rectangle{.width = count}, stream, Waiting::async);
  });
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return answer([&] {
    return device::fill(pointer(to), value, 2, Rectangle{.width = 2 * count}, stream,
                        Waiting::async);
  });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return answer([&] {
    return device::fill(pointer(to), value, 4, Rectangle{.width = 4 * count}, stream,
                        Waiting::async);
  });
}
