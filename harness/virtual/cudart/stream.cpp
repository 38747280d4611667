#include "harness/virtual/device/stream.h"

#include <cuda_runtime_api.h>

#include "harness/virtual/device/event.h"
#include "harness/virtual/device/failure.h"

namespace device = tidemark::device;
using device::call;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call(device::create_stream, stream, 0, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call(device::create_stream, stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call(device::create_stream, stream, flags, priority);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return call(device::destroy_stream, stream); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call(device::stream_priority, stream, priority);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call(device::stream_flags, stream, flags);
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return call(device::stream_id, stream, id);
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* d) {
  return call(device::stream_device, stream, d);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return call(device::query_stream, stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call(device::synchronise_stream, stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call([&] {
    return flags > 1 ? cudaErrorInvalidValue
                     : device::wait_event(stream, event, flags == cudaEventWaitExternal);
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return call(device::enqueue_host_function, stream, function, argument);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                  void* argument, unsigned flags) {
  struct Call {
    cudaStreamCallback_t function;
    cudaStream_t stream;
    void* argument;
  };
  return call([&] {
    if (flags || !function) return cudaErrorInvalidValue;
    auto* made = new Call{function, stream, argument};
    const cudaError_t error = device::enqueue_host_function(
        stream,
        [](void* p) {
          auto* c = static_cast<Call*>(p);
          c->function(c->stream, cudaSuccess, c->argument);
          delete c;
        },
        made);
    if (error != cudaSuccess) delete made;
    return error;
  });
}
