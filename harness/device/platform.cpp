#include "harness/device/platform.h"

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "harness/device/platforms.h"
#include "harness/errors.h"

namespace tidemark {
namespace {

/// Before CUDA begins: a stream of a device that is held back takes about 1,024 launches, and then
/// the host waits until the device goes on (reports/measured/README.md: 17 traces). Four times as
/// many is the most that CUDA offers.
void ask_for_the_largest_queue() { setenv("CUDA_SCALE_LAUNCH_QUEUES", "4x", /*overwrite=*/0); }

std::unique_ptr<Platform> choose() {
  const char* variable = std::getenv("TIDEMARK_PLATFORM");
  const std::string asked = variable != nullptr ? variable : "";
  if (asked == "cuda") ask_for_the_largest_queue();
  auto chosen = virtual_platform();
  if (chosen == nullptr) {
    ask_for_the_largest_queue();
    return cuda_platform();
  }
  if (asked == "cuda") return rehearsal_platform(std::move(chosen));
  if (!asked.empty())
    throw UsageError("TIDEMARK_PLATFORM=" + asked +
                     ": there is cuda, a rehearsal on the virtual device; else unset it");
  return chosen;
}

}  // namespace

cudaDeviceProp device_properties() {
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  cudaDeviceProp result{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&result, device));
  return result;
}

Platform& platform() {
  static Platform* instance = choose().release();
  return *instance;
}

VirtualDevice* virtual_device() { return platform().virtual_device(); }
RealGpu* real_gpu() { return platform().real_gpu(); }

void set_race_detection(bool on) {
  if (auto* device = virtual_device()) device->set_race_detection(on);
}
bool set_capacity(Bytes bytes) {
  auto* device = virtual_device();
  return device != nullptr && device->set_capacity(bytes);
}

std::vector<std::string> platform_schedules() { return platform().schedules(); }

}  // namespace tidemark
