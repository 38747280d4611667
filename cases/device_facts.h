// Facts of the current device that plans of memory need (reference/memory/replay.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>

#include "reference/memory/replay.h"

// Declared here because ATen's header of these wants headers that the set-up does not bring
// (cuSPARSE, cuSOLVER).
namespace at::cuda {
std::size_t getChosenWorkspaceSize();
cudaDeviceProp* getCurrentDeviceProperties();
}  // namespace at::cuda

namespace tidemark {

inline reference::DeviceFacts current_device_facts() {
  const char* placement = std::getenv("TIDEMARK_PLACEMENT");  // of the virtual device
  const auto* properties = at::cuda::getCurrentDeviceProperties();
  return {.workspace_bytes = static_cast<std::int64_t>(at::cuda::getChosenWorkspaceSize()),
          .processors = properties->multiProcessorCount,
          .threads_per_processor = properties->maxThreadsPerMultiProcessor,
          .capability = 10 * properties->major + properties->minor,
          .shared_per_block = static_cast<std::int64_t>(properties->sharedMemPerBlockOptin),
          .placement = reference::placement_named(placement ? placement : "")};
}

}  // namespace tidemark
