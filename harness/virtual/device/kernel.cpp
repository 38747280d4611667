#include "harness/virtual/device/kernel.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "harness/virtual/device/engine.h"

namespace tidemark::device {
namespace {

// Where nothing says how much memory a kernel touches: PyTorch's elementwise kernels read and write four 4-byte elements
// a thread.
constexpr double kBytesPerThread = 32;

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<const void*, const char*>> fresh;  // registered, not yet looked at
  std::unordered_map<const void*, Kernel*> by_function;
  std::deque<Kernel> kernels;
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace

void register_kernel(const void* host_function, const char* name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.fresh.emplace_back(host_function, name);
}

Kernel* find_kernel(const void* function) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (const auto& [host, name] : r.fresh) {
    Kernel*& kernel = r.by_function[host];
    if (!kernel) {
      Kernel* made = &r.kernels.emplace_back();
      kernel = made;  // before the next insertion moves the table
      r.by_function[made] = made;
      made->name = name;
    }
  }
  r.fresh.clear();
  auto found = r.by_function.find(function);
  return found == r.by_function.end() ? nullptr : found->second;
}

Kernel* make_kernel(const char* name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  Kernel* kernel = &r.kernels.emplace_back();
  kernel->name = name;
  return r.by_function[kernel] = kernel;
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

cudaError_t launch_kernel(Kernel* kernel, const Launch& l) {
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  const std::uint64_t threads = std::uint64_t{l.block.x} * l.block.y * l.block.z;
  const std::uint64_t blocks = std::uint64_t{l.grid.x} * l.grid.y * l.grid.z;
  if (threads == 0 || blocks == 0 || threads > 1024 || l.block.x > 1024 || l.block.y > 1024 || l.block.z > 64 ||
      l.grid.x > 0x7fffffffu || l.grid.y > 65535 || l.grid.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  Engine& e = engine();
  if (l.cooperative) {
    int fitting = 0;
    if (cudaError_t error = occupancy(kernel, static_cast<int>(threads), l.shared, &fitting)) return error;
    if (blocks > static_cast<std::uint64_t>(fitting) * static_cast<std::uint64_t>(e.profile.multiprocessors)) {
      return cudaErrorCooperativeLaunchTooLarge;
    }
  }
  std::lock_guard lock(e.mutex);
  if (l.shared > static_cast<std::size_t>(std::max(kernel->max_dynamic_shared, e.profile.shared_per_block))) {
    return cudaErrorInvalidValue;
  }
  Stream* s = e.find(l.stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  ++kernel->launches;
  enqueue_kernel(*s, kernel->name, static_cast<double>(blocks * threads) * kBytesPerThread);
  return cudaSuccess;
}

}  // namespace tidemark::device
