// Kernels of PyTorch's symmetric memory, which order the ranks by signals (signals.h) and reduce
// over their buffers. They are the kernels that are carried out here, where data moves: what they
// do depends on other processes, so no operator of the CPU can stand for them. What they do is that
// of torch/csrc/distributed/c10d/CUDASymmetricMemory.cu and CUDASymmetricMemoryOps.cu (PyTorch 2.6
// to 2.15).
#pragma once

#include <driver_types.h>

#include <functional>
#include <optional>
#include <string>

#include "harness/virtual/device/device.h"

namespace tidemark::device {

/// Puts the kernel into a stream; whether it waits for other ranks is seen there.
using SymmetricKernel = std::function<void(StreamHandle)>;

/// The kernel of this (mangled) name with these arguments, which are read at once. Nothing if it is
/// another kernel, or if this mode has no numbers for what the arguments point to.
///
/// A rank that waits longer than the kernel's own time-out on the device's clock, or, for a partner
/// that does not come, than that and 15 s of real time (ranks compute more slowly here than on a
/// GPU), breaks the context with cudaErrorLaunchFailure, as the kernel's trap does. Without a
/// time-out of its own it waits for TIDEMARK_TIMEOUT, and the error is cudaErrorLaunchTimeout. A
/// line on stderr says which rank did not come.
std::optional<SymmetricKernel> symmetric_kernel(const std::string& name, void** arguments);

}  // namespace tidemark::device
