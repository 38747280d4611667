#include "harness/virtual/device/event.h"

#include <cuda_runtime_api.h>

#include "harness/virtual/device/failure.h"

namespace device = tidemark::device;
using device::call;

cudaError_t cudaEventCreate(cudaEvent_t* event) { return call(device::create_event, event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call(device::create_event, event, flags);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return call(device::destroy_event, event); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call(device::record_event, event, stream, false);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call([&] {
    return flags > 1 ? cudaErrorInvalidValue
                     : device::record_event(event, stream, flags == cudaEventRecordExternal);
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return call(device::query_event, event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(device::synchronise_event, event);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call(device::elapsed_time, milliseconds, start, end);
}
