// The exported functions that concern no operation: versions, texts, memory, registration; and what
// is not modelled.
#include <cstdio>

#include "harness/virtual/nccl/api.h"
#include "harness/virtual/nccl/communicator.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/debug.h"
#include "harness/virtual/nccl/message_queue.h"
#include "harness/virtual/nccl/transport.h"

using namespace tidemark::nccl;

namespace {

ncclResult_t refuse(const char* function) {
  return report_failure(function, ncclInvalidUsage, not_supported(function));
}

}  // namespace

NCCL_API(ncclResult_t, ncclGetVersion)(int* version) {
  return at_border("ncclGetVersion", [&] {
    if (version == nullptr) fail(ncclInvalidArgument, "the pointer to the version is NULL");
    *version = NCCL_VERSION_CODE;
  });
}

NCCL_API(const char*, ncclGetErrorString)(ncclResult_t result) {
  constexpr const char* texts[] = {
      // by code
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress",
  };
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

NCCL_API(const char*, ncclGetLastError)(ncclComm_t handle) {
  thread_local std::string text;
  text = last_error();
  try {
    if (handle != nullptr) {
      ncclComm& comm = known(handle);
      std::lock_guard lock(comm.mutex);
      if (!comm.error_text.empty()) text = comm.error_text;
    }
  } catch (const Failure& failure) {
    text = failure.what();
  }
  return text.c_str();
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
NCCL_API(void, ncclResetDebugInit)() { reload_debug(); }
#pragma GCC diagnostic pop

NCCL_API(ncclResult_t, ncclMemAlloc)(void** address, size_t size) {
  return at_border("ncclMemAlloc", [&] {
    if (address == nullptr) fail(ncclInvalidArgument, "the pointer to the address is NULL");
    if (int error = cuda::allocate(address, size))
      fail(ncclUnhandledCudaError, "cudaMalloc({}) returned {}", size, error);
  });
}

NCCL_API(ncclResult_t, ncclMemFree)(void* address) {
  return at_border("ncclMemFree", [&] {
    if (int error = cuda::release(address))
      fail(ncclUnhandledCudaError, "cudaFree({}) returned {}", address, error);
  });
}

NCCL_API(ncclResult_t, ncclCommRegister)
(const ncclComm_t handle, void* buffer, size_t size, void** registration) {
  return at_border("ncclCommRegister", [&] {
    ncclComm& comm = check_usable(handle);
    if (buffer == nullptr || registration == nullptr || size == 0)
      fail(ncclInvalidArgument, "nothing to register");
    std::lock_guard lock(comm.mutex);
    ++comm.registered[buffer];
    *registration = buffer;
  });
}

NCCL_API(ncclResult_t, ncclCommDeregister)(const ncclComm_t handle, void* registration) {
  return at_border("ncclCommDeregister", [&] {
    ncclComm& comm = known(handle);
    std::lock_guard lock(comm.mutex);
    if (registration == nullptr) return;
    auto place = comm.registered.find(registration);
    if (place == comm.registered.end())
      fail(ncclInvalidArgument, "{} was not registered here", registration);
    if (--place->second == 0) comm.registered.erase(place);
  });
}

NCCL_API(ncclResult_t, ncclCommRevoke)(ncclComm_t, int) { return refuse("ncclCommRevoke"); }

NCCL_API(ncclResult_t, ncclCommWindowRegister)(ncclComm_t, void*, size_t, ncclWindow_t*, int) {
  return refuse("ncclCommWindowRegister");
}

NCCL_API(ncclResult_t, ncclCommWindowDeregister)(ncclComm_t, ncclWindow_t) {
  return refuse("ncclCommWindowDeregister");
}

// Functions of nccl_device.h, which does not come with nccl.h.
EXPORTED ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*) {
  return refuse("ncclDevCommCreate");
}
EXPORTED ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) {
  return refuse("ncclDevCommDestroy");
}

// For a process that ends without exit(): its last messages leave first.
EXPORTED void tidemark_nccl_leave() { MessageQueue::of_process().close(); }
