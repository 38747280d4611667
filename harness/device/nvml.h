// Memory of a GPU by process, from NVIDIA's management library, because CUDA does not report it.
// The library comes with the driver; it is loaded at the first request, and never linked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// One GPU's memory at a moment, in bytes.
struct GpuUse {
  struct Process {
    int pid = 0;
    std::optional<Bytes> used;  // where NVML tells it
    bool here = true;           // a process of this number is there, seen from this one
  };
  std::string unknown;  // why NVML tells nothing of it; empty where it does
  std::vector<Process> processes;
  Bytes used = 0;      // of all, without `reserved`
  Bytes reserved = 0;  // by driver and firmware
};

/// Use of the GPU, or of the MIG instance, with these 16 bytes (cudaDeviceProp::uuid).
GpuUse gpu_use(const char* uuid);

/// The process `pid` apart from all other processes; `allocator`: the bytes of its own that the
/// caching allocator has. Says why it cannot be told rather than guess: the driver counts processes
/// as the host does, and in a container a number may be another process's.
OutsideOwners told_apart(const GpuUse& use, int pid, Bytes allocator);

/// "580.82.07"; empty where NVML does not say.
std::string driver_version();

}  // namespace tidemark
