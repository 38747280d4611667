#include <cuda_occupancy.h>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/kernel.h"

namespace tidemark::device {
namespace {

cudaOccDeviceProp properties(const Profile& p) {
  cudaOccDeviceProp d;
  d.computeMajor = p.major;
  d.computeMinor = p.minor;
  d.maxThreadsPerBlock = 1024;
  d.maxThreadsPerMultiprocessor = p.threads_per_multiprocessor;
  d.regsPerBlock = 65536;
  d.regsPerMultiprocessor = p.registers_per_multiprocessor;
  d.warpSize = 32;
  d.sharedMemPerBlock = static_cast<std::size_t>(p.shared_per_block);
  d.sharedMemPerMultiprocessor = static_cast<std::size_t>(p.shared_per_multiprocessor);
  d.numSms = p.multiprocessors;
  d.sharedMemPerBlockOptin = static_cast<std::size_t>(p.shared_per_block_optin);
  d.reservedSharedMemPerBlock = static_cast<std::size_t>(p.shared_reserved);
  return d;
}

cudaOccFuncAttributes attributes(const Kernel& kernel, const Profile& p) {
  cudaOccFuncAttributes a;
  a.maxThreadsPerBlock = kernel.compiled.max_threads;
  a.numRegs = kernel.compiled.registers;
  a.sharedSizeBytes = kernel.compiled.shared;
  a.partitionedGCConfig = PARTITIONED_GC_OFF;
  a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  a.maxDynamicSharedSizeBytes =
      static_cast<std::size_t>(std::max(kernel.max_dynamic_shared, p.shared_per_block));
  a.numBlockBarriers = 1;
  return a;
}

}  // namespace

cudaError_t occupancy(const Kernel* kernel, int threads, std::size_t dynamic_shared, int* blocks) {
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  if (!blocks || threads <= 0) return cudaErrorInvalidValue;
  const Profile& p = engine().profile;
  const cudaOccDeviceProp device = properties(p);
  const cudaOccFuncAttributes function = attributes(*kernel, p);
  const cudaOccDeviceState state;
  cudaOccResult result = {};
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads,
                                              dynamic_shared)) {
    return cudaErrorInvalidValue;
  }
  *blocks = std::min(result.activeBlocksPerMultiprocessor, p.blocks_per_multiprocessor);
  return cudaSuccess;
}

}  // namespace tidemark::device
