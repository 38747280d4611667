// Kernels: known by name, counted when launched, never run. What a launch may ask for is checked as
// CUDA does.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

struct Kernel {
  std::string name;  // mangled
  std::uint64_t launches = 0;
  // Of the compiled code nothing is known but its name; these are what a small kernel has.
  int registers = 32;
  int max_threads = 1024;
  int max_dynamic_shared = 49152;  // cudaFuncSetAttribute raises it
  int preferred_carveout = -1;
};

/// Cheap: programs register tens of thousands before main(). `name` must stay readable until the
/// kernel is first asked for.
void register_kernel(const void* host_function, const char* name);
/// The kernel behind a host function, or behind its own address; null where there is none.
Kernel* find_kernel(const void* function);
/// One that belongs to no host function (a loaded module's).
Kernel* make_kernel(const char* name);

struct Launch {
  dim3 grid, block;
  std::size_t shared = 0;  // dynamic, bytes
  StreamHandle stream = nullptr;
  bool cooperative = false;
  void** arguments = nullptr;  // looked at where they say how long the kernel takes
};
cudaError_t launch_kernel(Kernel* kernel, const Launch& launch);

/// Blocks of so many threads that fit on one multiprocessor, by NVIDIA's own occupancy formulas.
cudaError_t occupancy(const Kernel* kernel, int threads, std::size_t dynamic_shared, int* blocks);
/// The block size of highest occupancy and the grid that fills the device with it.
cudaError_t best_block_size(const Kernel* kernel, std::size_t dynamic_shared, int limit, int* grid,
                            int* block);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {
struct Stream;
// operation.cpp; lock held. `duration` in ns, where it is known (>= 0).
void enqueue_kernel(Stream& s, std::string_view name, double fallback_bytes, std::int64_t duration);
}  // namespace tidemark::device
