#include "harness/virtual/device/pool.h"

#include <cuda_runtime_api.h>

#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/stream.h"

namespace device = tidemark::device;
using device::call;

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
  return call(device::allocate_async, address, bytes, nullptr, stream);
}
cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return call([&] {
    return pool ? device::allocate_async(address, bytes, pool, stream) : cudaErrorInvalidValue;
  });
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return call(device::free_async, address, stream);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int d) {
  return call(device::default_pool, pool, d);
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int d) {
  return call(device::current_pool, pool, d);
}
cudaError_t cudaDeviceSetMemPool(int d, cudaMemPool_t pool) {
  return call(device::set_current_pool, d, pool);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return call([&] {
    if (!properties || properties->allocType != cudaMemAllocationTypePinned)
      return cudaErrorInvalidValue;
    if (properties->location.type != cudaMemLocationTypeDevice ||
        properties->handleTypes != cudaMemHandleTypeNone) {
      device::not_supported("libcudart", "cudaMemPoolCreate of host or shareable memory");
      return cudaErrorNotSupported;
    }
    return device::create_pool(pool, properties->location.id);
  });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return call(device::destroy_pool, pool); }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return call(device::trim_pool, pool, keep);
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call(device::pool_attribute, pool, attribute, value);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return call(device::set_pool_attribute, pool, attribute, value);
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptions,
                                 size_t count) {
  return call([&] {
    if (!descriptions || count == 0) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (descriptions[i].location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      const bool accessible = descriptions[i].flags != cudaMemAccessFlagsProtNone;
      if (cudaError_t e = device::set_pool_access(pool, descriptions[i].location.id, accessible))
        return e;
    }
    return cudaSuccess;
  });
}
