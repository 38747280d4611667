#include "harness/virtual/device/ipc.h"

#include <cstring>

#include "harness/virtual/device/event.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;

namespace {
// The driver's handles are those of the runtime.
template <class To, class From>
To same_bytes(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return answer(device::memory_handle, reinterpret_cast<cudaIpcMemHandle_t*>(handle),
                reinterpret_cast<const void*>(address));
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  return answer(device::open_memory, reinterpret_cast<void**>(address),
                same_bytes<cudaIpcMemHandle_t>(handle), flags);
}
CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return answer(device::close_memory, reinterpret_cast<void*>(address));
}
CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return answer(device::share_event, reinterpret_cast<cudaIpcEventHandle_t*>(handle), event);
}
CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return answer(device::open_event, event, same_bytes<cudaIpcEventHandle_t>(handle));
}
