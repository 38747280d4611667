// Facts of the current device that plans of memory need (reference/memory/replay.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "harness/scenario.h"
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

/// Why the plans do not follow attention at the trial's hidden, heads, kv_heads and precision on
/// the current device, or empty: PyTorch takes flash attention for training in bf16 where it has
/// its backward (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
inline std::string without_attention(const Trial& trial) {
  const auto hidden = trial["hidden"], heads = trial["heads"], kv = trial["kv_heads"];
  const auto head = hidden / heads;
  if (heads % kv != 0)
    return "heads=" + std::to_string(heads) +
           " is not a multiple of kv_heads=" + std::to_string(kv);
  if (hidden % heads != 0 || head % 8 != 0 || head > 256)
    return "a head has hidden / heads elements, a multiple of 8 and at most 256, not " +
           std::to_string(hidden) + " / " + std::to_string(heads) + "; set hidden or heads";
  if (trial["precision"] == 0) return "";
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  const std::string has = "this GPU has " + std::to_string(major) + "." + std::to_string(minor) +
                          ", and there PyTorch takes other kernels for bf16, which are not "
                          "modelled; set ";
  if (major < 8) return "flash attention needs compute capability 8.0, " + has + "precision=fp32";
  const bool little_shared_memory = (major == 8 && minor >= 6) || major == 12;
  if (little_shared_memory && head > 192 && head <= 224)
    return "flash attention has no backward for heads of " + std::to_string(head) +
           " elements on GPUs of compute capability 8.6, 8.9 and 12, " + has +
           "hidden, heads or precision=fp32";
  return "";
}

}  // namespace tidemark
