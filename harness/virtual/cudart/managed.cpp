// Managed memory: where it is, is advice.
#include <cuda_runtime_api.h>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/memory.h"

namespace device = tidemark::device;
using device::call;

namespace {

// The memory and where it is to go: the host, or a device that there is.
cudaError_t check(const void* address, std::size_t bytes, int place) {
  if (bytes == 0 || !device::is_managed(address)) return cudaErrorInvalidValue;
  return place < 0 || device::device_exists(place) ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t prefetch(const void* address, std::size_t bytes, int place, cudaStream_t stream) {
  return call([&] {
    const cudaError_t error = check(address, bytes, place);
    if (error == cudaSuccess) device::enqueue(stream, "prefetch of managed memory", {});
    return error;
  });
}

}  // namespace

cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned flags) {
  return call(device::allocate_managed, address, bytes, flags);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, cudaMemLocation to, unsigned,
                                 cudaStream_t stream) {
  return prefetch(address, bytes, to.type == cudaMemLocationTypeDevice ? to.id : -1, stream);
}
cudaError_t cudaMemAdvise(const void* address, size_t bytes, cudaMemoryAdvise, cudaMemLocation to) {
  const int place = to.type == cudaMemLocationTypeDevice ? to.id : -1;
  return call([&] { return check(address, bytes, place); });
}
#else
cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, int place,
                                 cudaStream_t stream) {
  return prefetch(address, bytes, place, stream);
}
cudaError_t cudaMemAdvise(const void* address, size_t bytes, cudaMemoryAdvise, int place) {
  return call([&] { return check(address, bytes, place); });
}
#endif
