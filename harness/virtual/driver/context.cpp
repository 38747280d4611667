// Devices and their primary contexts, which are all the contexts there are: context n + 1 belongs
// to device n.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/event.h"
#include "harness/virtual/device/peers.h"
#include "harness/virtual/device/stream.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;
using device::device_exists;
using device::give;

namespace {

CUcontext context_of(CUdevice d) {
  return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(d) + 1);
}

int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
}

const char* driver_name(CUresult result) {
  switch (result) {
#include "driver_error_names.inc"
    default:
      return nullptr;
  }
}

}  // namespace

CUresult cuInit(unsigned flags) {
  return answer([&] {
    if (flags) return cudaErrorInvalidValue;
    return device::device_count() ? cudaSuccess : cudaErrorNoDevice;
  });
}
CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
// The driver's log has no entries, so nothing is ever called back.
CUresult cuLogsRegisterCallback(CUlogsCallback, void*, CUlogsCallbackHandle* handle) {
  if (handle) *handle = nullptr;
  return CUDA_SUCCESS;
}
CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle) { return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int* count) {
  return answer([&] { return give(count, device::device_count()); });
}
CUresult cuDeviceGet(CUdevice* d, int ordinal) {
  return answer(
      [&] { return d && !device_exists(ordinal) ? cudaErrorInvalidDevice : give(d, ordinal); });
}
CUresult cuDeviceGetName(char* name, int size, CUdevice d) {
  return answer(device::name_of_device, name, size, d);
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice d) {
  return answer([&] {
    if (!uuid) return cudaErrorInvalidValue;
    if (!device_exists(d)) return cudaErrorInvalidDevice;
    device::device_uuid(d, uuid->bytes);
    return cudaSuccess;
  });
}
#undef cuDeviceGetUuid  // the name before CUDA 11.4, by which TensorPipe (PyTorch's RPC) finds it
extern "C" CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice d) {
  return cuDeviceGetUuid_v2(uuid, d);
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice d) {
  return answer([&] {
    if (!bytes) return cudaErrorInvalidValue;
    return device_exists(d) ? give(bytes, device::device_capacity(d)) : cudaErrorInvalidDevice;
  });
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice d) {
  return answer([&] { return device::attribute(value, static_cast<int>(attribute), d); });
}
CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice d) {
  return answer(device::bus_id_of_device, text, size, d);
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice d, CUdevice peer) {
  return answer(device::can_access_peer, can, d, peer);
}
CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice d,
                                 CUdevice peer) {
  return answer(device::peer_attribute, value, static_cast<int>(attribute), d, peer);
}
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return answer(device::enable_peer, device_of(peer), flags);
}
CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  return answer(device::disable_peer, device_of(peer));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned* flags, int* active) {
  return answer([&] {
    if (!flags || !active) return cudaErrorInvalidValue;
    if (!device_exists(d)) return cudaErrorInvalidDevice;
    *flags = 0;
    *active = 1;
    return cudaSuccess;
  });
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice d) {
  return answer([&] {
    return context && !device_exists(d) ? cudaErrorInvalidDevice : give(context, context_of(d));
  });
}
CUresult cuDevicePrimaryCtxRelease(CUdevice d) {
  return answer([&] { return device_exists(d) ? cudaSuccess : cudaErrorInvalidDevice; });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return answer([&] {
    const bool any = device::device_count() > 0;
    return give(context, any ? context_of(device::current_device_index()) : nullptr);
  });
}
CUresult cuCtxSetCurrent(CUcontext context) {
  return answer([&] {
    if (!context) return cudaSuccess;
    const auto number = reinterpret_cast<std::uintptr_t>(context);
    if (number > static_cast<std::uintptr_t>(device::device_count()))
      return cudaErrorDeviceUninitialized;
    return device::select_device(static_cast<int>(number) - 1);
  });
}
CUresult cuCtxGetDevice(CUdevice* d) {
  return answer([&] { return give(d, device::current_device_index()); });
}
CUresult cuCtxSynchronize() {
  return answer(device::synchronise_device, device::current_device_index());
}

CUresult cuGetErrorString(CUresult result, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = device::error_text(static_cast<cudaError_t>(result));
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorName(CUresult result, const char** name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = driver_name(result);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int, cuuint64_t,
                          CUdriverProcAddressQueryResult* result) {
  if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
  static void* self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* suffix : {"_v3", "_v2", ""}) {
    if (!*function && self) *function = dlsym(self, (std::string(symbol) + suffix).c_str());
  }
  if (result)
    *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuStreamSynchronize(CUstream stream) { return answer(device::synchronise_stream, stream); }
CUresult cuStreamQuery(CUstream stream) { return answer(device::query_stream, stream); }
CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return answer(device::create_stream, stream, flags, 0);
}
CUresult cuStreamDestroy(CUstream stream) { return answer(device::destroy_stream, stream); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return answer(device::wait_event, stream, event, false);
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return answer([&] {
    if (!status) return cudaErrorInvalidValue;
    if (!device::is_stream(stream)) return cudaErrorInvalidResourceHandle;
    *status = device::is_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                           : CU_STREAM_CAPTURE_STATUS_NONE;
    return cudaSuccess;
  });
}
CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return answer(device::create_event, event, flags);
}
CUresult cuEventDestroy(CUevent event) { return answer(device::destroy_event, event); }
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return answer(device::record_event, event, stream, false);
}
CUresult cuEventQuery(CUevent event) { return answer(device::query_event, event); }
CUresult cuEventSynchronize(CUevent event) { return answer(device::synchronise_event, event); }
