// CUDA IPC: memory of one process that another one uses (events: event.h). What is opened counts
// for no device here; it is the owner's. Errors are those of cudaIpcGetMemHandle and its family.
#pragma once

#include <driver_types.h>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

/// Memory of cudaMalloc around `address`; that of pools cannot be shared in this way.
cudaError_t memory_handle(cudaIpcMemHandle_t* handle, const void* address);
/// A handle that is open already gives the same address once more.
/// cudaErrorDeviceUninitialized: it is this process's own. cudaErrorInvalidResourceHandle: the
/// process has ended, or has freed the memory.
cudaError_t open_memory(void** address, const cudaIpcMemHandle_t& handle, unsigned flags);
cudaError_t close_memory(void* address);

}  // namespace tidemark::device
#pragma GCC visibility pop
