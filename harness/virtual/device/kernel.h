// Kernels: known by name, counted when launched, never run, but for a few that are carried out here
// (symmetric_memory.h, fills.h). What a launch may ask for is checked as CUDA does.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/virtual/device/activity.h"
#include "harness/virtual/device/cubin.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/image.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

struct Kernel {
  std::string name;            // mangled
  const void* code = nullptr;  // its fat binary, read when the kernel is first asked for
  Image image;                 // of it, for a device of this capability
  int image_for = 0;
  std::uint64_t launches = 0;
  /// As a loaded cubin states them. Of code that the program registers nothing is known but its
  /// name: these are what a small kernel has.
  CompiledKernel compiled{.registers = 32};
  int max_dynamic_shared = 49152;  // cudaFuncSetAttribute raises it
  int preferred_carveout = -1;
  /// By argument: whether the kernel at most reads what it points to. What is not said is written.
  std::vector<bool> reads_only;
};

/// Cheap: programs register tens of thousands before main(). `name` must stay readable until the
/// kernel is first asked for, and so must `code` (choose_image; null: it runs anywhere).
void register_kernel(const void* host_function, const char* name, const void* code);
/// The kernel behind a host function, or behind its own address; null where there is none.
Kernel* find_kernel(const void* function);
/// One that belongs to no host function (a loaded module's).
Kernel* make_kernel(const char* name, const CompiledKernel* compiled = nullptr);
/// The image that the device of the profile takes; cudaErrorNoKernelImageForDevice where none runs.
cudaError_t image_of(Kernel& kernel, Image* image);

/// The most dynamic shared memory that a block may ask for, in bytes, and the preferred share of it
/// in percent (-1: the driver's choice). cudaErrorInvalidValue where the device cannot have it.
cudaError_t set_dynamic_shared(Kernel& kernel, int bytes);
cudaError_t set_carveout(Kernel& kernel, int percent);

struct Launch {
  dim3 grid, block;
  std::size_t shared = 0;  // dynamic, bytes
  StreamHandle stream = nullptr;
  bool cooperative = false;
  void** arguments = nullptr;  // where they say how long the kernel takes, or what it may write
};
cudaError_t launch_kernel(Kernel* kernel, const Launch& launch);

/// Blocks of so many threads that fit on one multiprocessor, by NVIDIA's own occupancy formulas.
cudaError_t occupancy(const Kernel* kernel, int threads, std::size_t dynamic_shared, int* blocks);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {
struct Stream;
// operation.cpp; lock held. `duration` in ns, where it is known (>= 0). `effect`: what it does to
// data, or empty.
cudaError_t enqueue_kernel(Stream& s, std::string_view name, double fallback_bytes,
                           std::int64_t duration, std::function<cudaError_t()> effect,
                           const Work& work);
}  // namespace tidemark::device
