#include "harness/virtual/device/ipc.h"

#include <cuda_runtime_api.h>

#include "harness/virtual/device/event.h"
#include "harness/virtual/device/failure.h"

namespace device = tidemark::device;
using device::call;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  return call(device::memory_handle, handle, address);
}
cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned flags) {
  return call(device::open_memory, address, handle, flags);
}
cudaError_t cudaIpcCloseMemHandle(void* address) { return call(device::close_memory, address); }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return call(device::share_event, handle, event);
}
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return call(device::open_event, event, handle);
}
