#include "harness/virtual/device/kernel.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/fills.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/device/python_start.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/symmetric_memory.h"

namespace tidemark::device {
namespace {

// Bytes a thread of a kernel whose accesses are unknown: PyTorch's elementwise kernels read and
// write four 4-byte elements a thread.
constexpr double kBytesPerThread = 32;

// PyTorch's torch.cuda._sleep (ATen/native/cuda/Sleep.cu) spins for as many cycles as its argument
// says. A profile has no clock: here a cycle is a nanosecond. < 0: another kernel.
std::int64_t spins_for(const Kernel& kernel, void** arguments) {
  if (arguments == nullptr || kernel.name.find("11spin_kernelEl") == std::string::npos) return -1;
  return std::max<std::int64_t>(*static_cast<const std::int64_t*>(arguments[0]), 0);
}

struct Name {
  const char* name;
  const void* code;
};

struct Registry {
  std::mutex mutex;
  // PyTorch registers some fifty thousand kernels before main() and launches a few hundred: names
  // are only filed until one is asked for.
  std::unordered_map<const void*, Name> names;
  std::unordered_map<const void*, Kernel*> known;  // by function, and by the kernel's own address
  std::deque<Kernel> kernels;

  Kernel* make(const char* name) {
    Kernel* kernel = &kernels.emplace_back();
    kernel->name = name;
    return known[kernel] = kernel;
  }
};

Registry& registry() { return immortal<Registry>(); }

}  // namespace

void register_kernel(const void* host_function, const char* name, const void* code) {
  static std::once_flag once;
  std::call_once(once, start_in_python);
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.names[host_function] = {name, code};  // a library loaded later at the same place replaces it
  r.known.erase(host_function);
}

Kernel* find_kernel(const void* function) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (auto kernel = r.known.find(function); kernel != r.known.end()) return kernel->second;
  const auto filed = r.names.find(function);
  if (filed == r.names.end()) return nullptr;
  Kernel* kernel = r.known[function] = r.make(filed->second.name);
  kernel->code = filed->second.code;
  return kernel;
}

Kernel* make_kernel(const char* name, const CompiledKernel* compiled) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  Kernel* kernel = r.make(name);
  if (compiled) kernel->compiled = *compiled;
  return kernel;
}

cudaError_t image_of(Kernel& kernel, Image* image) {
  const Profile& p = engine().profile;  // changes only while no memory is allocated
  const int capability = 10 * p.major + p.minor;
  std::lock_guard lock(registry().mutex);
  if (kernel.image_for != capability) {
    kernel.image = choose_image(kernel.code, capability);
    kernel.image_for = capability;
  }
  *image = kernel.image;
  return image->binary ? cudaSuccess : cudaErrorNoKernelImageForDevice;
}

void reset_kernel_counts() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (Kernel& kernel : r.kernels) kernel.launches = 0;
}

std::vector<std::pair<std::string, std::uint64_t>> kernel_counts() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  for (const Kernel& kernel : r.kernels) {
    if (kernel.launches) counts.emplace_back(kernel.name, kernel.launches);
  }
  return counts;
}

cudaError_t set_dynamic_shared(Kernel& kernel, int bytes) {
  int most = 0;
  attribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, current_device());
  if (bytes < 0 || bytes > most) return cudaErrorInvalidValue;
  kernel.max_dynamic_shared = bytes;
  return cudaSuccess;
}

cudaError_t set_carveout(Kernel& kernel, int percent) {
  if (percent < -1 || percent > 100) return cudaErrorInvalidValue;
  kernel.preferred_carveout = percent;
  return cudaSuccess;
}

cudaError_t launch_kernel(Kernel* kernel, const Launch& l) {
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  const std::uint64_t threads = std::uint64_t{l.block.x} * l.block.y * l.block.z;
  const std::uint64_t blocks = std::uint64_t{l.grid.x} * l.grid.y * l.grid.z;
  if (threads == 0 || blocks == 0 || threads > 1024 || l.block.x > 1024 || l.block.y > 1024 ||
      l.block.z > 64 || l.grid.x > 0x7fffffffu || l.grid.y > 65535 || l.grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  Image image;
  if (cudaError_t error = image_of(*kernel, &image)) return error;
  if (const auto carried_out = symmetric_kernel(kernel->name, l.arguments)) {
    {
      auto [e, lock] = locked_at_once();
      if (!e.find(l.stream)) return cudaErrorInvalidResourceHandle;
      ++kernel->launches;
      e.memory_of(current_device()).placement().launched(kernel->name);
    }
    (*carried_out)(l.stream);
    return cudaSuccess;
  }
  settle_if_deferring(l.stream);
  const std::int64_t spins = spins_for(*kernel, l.arguments);
  std::function<cudaError_t()> effect;
  if (data_moves()) effect = fill_of(kernel->name, l.arguments);
  if (spins < 0 && !effect && !admits_kernel(kernel->name)) return cudaErrorNotSupported;
  if (spins < 0 && follows_known())
    effect = [blocks = blocks_of(kernel->name, l.arguments, kernel->compiled.parameters,
                                 kernel->reads_only),
              described = !kernel->reads_only.empty()] {
      forget(blocks);
      if (!described) distrust_shared();
      return cudaSuccess;
    };
  if (!inside_operator() && uses_are_told()) note_reads(l.arguments, kernel->compiled.parameters);
  Engine& e = engine();
  if (l.cooperative) {
    int fitting = 0;
    if (cudaError_t error = occupancy(kernel, static_cast<int>(threads), l.shared, &fitting))
      return error;
    if (blocks > static_cast<std::uint64_t>(fitting) *
                     static_cast<std::uint64_t>(e.profile.multiprocessors)) {
      return cudaErrorCooperativeLaunchTooLarge;
    }
  }
  std::lock_guard lock(e.mutex);
  if (l.shared >
      static_cast<std::size_t>(std::max(kernel->max_dynamic_shared, e.profile.shared_per_block))) {
    return cudaErrorInvalidValue;
  }
  Stream* s = e.find(l.stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  ++kernel->launches;
  e.memory_of(current_device()).placement().launched(kernel->name);
  return enqueue_kernel(*s, kernel->name, static_cast<double>(blocks * threads) * kBytesPerThread,
                        spins, std::move(effect),
                        {.type = Work::Type::kernel,
                         .grid = {l.grid.x, l.grid.y, l.grid.z},
                         .block = {l.block.x, l.block.y, l.block.z},
                         .shared = static_cast<std::uint32_t>(l.shared),
                         .registers = static_cast<std::uint32_t>(kernel->compiled.registers)});
}

}  // namespace tidemark::device

void tidemark_device_kernel_reads(void* function, const unsigned char* only, size_t arguments) {
  if (tidemark::device::Kernel* const kernel = tidemark::device::find_kernel(function))
    kernel->reads_only.assign(only, only + arguments);
}
