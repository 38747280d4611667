// Functions that nvcc's generated code calls: registration before main(), and launches.
#include <cuda_runtime_api.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/copy.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/kernel.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/stream.h"

namespace device = tidemark::device;
using device::call;

namespace {

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

std::mutex variables_mutex;
std::unordered_map<const void*, size_t>& variables() {  // bytes, by host shadow
  static auto& instance = *new std::unordered_map<const void*, size_t>;
  return instance;
}

// The variable's place on the current device.
cudaError_t variable(const void* symbol, void** address, size_t* bytes) {
  {
    std::lock_guard lock(variables_mutex);
    auto size = variables().find(symbol);
    if (size == variables().end()) return cudaErrorInvalidSymbol;
    *bytes = size->second;
  }
  *address = device::module_variable(device::current_device_index(), symbol, *bytes);
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                   cudaStream_t stream, bool cooperative = false,
                   const char* caller = __builtin_FUNCTION()) {
  const device::CallRecord record(device::Api::runtime, caller);
  return call([&] {
    return device::launch_kernel(device::find_kernel(function),
                                 {grid, block, shared, stream, cooperative, arguments});
  });
}

}  // namespace

extern "C" {

// The handle holds the fat binary: nvcc's code only hands it back.
void** __cudaRegisterFatBinary(void* code) { return new void* {code}; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete handle; }
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  device::register_kernel(host_function, name, handle ? *handle : nullptr);
}

void __cudaRegisterVar(void**, char* symbol, char*, const char*, int, size_t bytes, int, int) {
  std::lock_guard lock(variables_mutex);
  variables()[symbol] = bytes;
}

void __cudaRegisterManagedVar(void**, void**, char*, const char* name, int, size_t, int, int) {
  device::not_supported("libcudart", name);
}
void __cudaRegisterTexture(void**, const void*, const void**, const char* name, int, int, int) {
  device::not_supported("libcudart", name);
}
void __cudaRegisterSurface(void**, const void*, const void**, const char* name, int, int) {
  device::not_supported("libcudart", name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations().empty()) return device::note_error(cudaErrorMissingConfiguration);
  const Configuration c = configurations().back();
  configurations().pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  device::Kernel* device_kernel = device::find_kernel(function);
  if (!device_kernel) return device::note_error(cudaErrorInvalidDeviceFunction);
  *kernel = reinterpret_cast<cudaKernel_t>(device_kernel);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream, false, device::kLibraryLaunch);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    size_t shared, cudaStream_t stream) {
  return launch(kernel, grid, block, arguments, shared, stream ? stream : cudaStreamPerThread,
                false, device::kLibraryLaunch);
}

}  // extern "C"

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, arguments, shared, stream, true);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (!config) return device::note_error(cudaErrorInvalidValue);
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    cooperative |=
        config->attrs[i].id == cudaLaunchAttributeCooperative && config->attrs[i].val.cooperative;
  }
  return launch(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                config->stream, cooperative);
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return call([&] { return kernel ? __cudaGetKernel(kernel, function) : cudaErrorInvalidValue; });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* function) {
  return call([&] {
    device::Kernel* kernel = device::find_kernel(function);
    if (!a) return cudaErrorInvalidValue;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    device::Image image;
    if (cudaError_t error = device::image_of(*kernel, &image)) return error;
    std::memset(a, 0, sizeof *a);
    a->binaryVersion = image.binary;
    a->ptxVersion = image.ptx;
    a->maxThreadsPerBlock = kernel->compiled.max_threads;
    a->numRegs = kernel->compiled.registers;
    a->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared;
    a->preferredShmemCarveout = kernel->preferred_carveout;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call([&] {
    device::Kernel* kernel = device::find_kernel(function);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        return device::set_dynamic_shared(*kernel, value);
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        return device::set_carveout(*kernel, value);
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        return cudaSuccess;
      case cudaFuncAttributeRequiredClusterWidth:
      case cudaFuncAttributeRequiredClusterHeight:
      case cudaFuncAttributeRequiredClusterDepth:
      case cudaFuncAttributeClusterSchedulingPolicyPreference:
        device::not_supported("libcudart", "cudaFuncSetAttribute (cluster dimensions)");
        return cudaErrorNotSupported;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache config) {  // a hint
  return call([&] {
    if (config < cudaFuncCachePreferNone || config > cudaFuncCachePreferEqual)
      return cudaErrorInvalidValue;
    return device::find_kernel(function) ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}
cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return call([&] {
    const device::Kernel* kernel = device::find_kernel(function);
    if (name && !kernel) return cudaErrorInvalidDeviceFunction;
    return device::give(name, kernel ? kernel->name.c_str() : nullptr);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared) {
  return call(device::occupancy, device::find_kernel(function), threads, shared, blocks);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  return call(device::occupancy, device::find_kernel(function), threads, shared, blocks);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return call([&] {
    size_t bytes = 0;
    return address ? variable(symbol, address, &bytes) : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  return call([&] {
    void* address = nullptr;
    return bytes ? variable(symbol, &address, bytes) : cudaErrorInvalidValue;
  });
}

namespace {
cudaError_t copy_variable(const void* symbol, void* host, size_t bytes, size_t offset,
                          bool to_symbol, cudaMemcpyKind kind, cudaStream_t stream,
                          device::Waiting waiting, const char* caller = __builtin_FUNCTION()) {
  const device::CallRecord record(device::Api::runtime, caller);
  return call([&]() -> cudaError_t {
    void* address = nullptr;
    size_t whole = 0;
    if (cudaError_t error = variable(symbol, &address, &whole)) return error;
    if (offset > whole || bytes > whole - offset) return cudaErrorInvalidValue;
    void* const place = static_cast<char*>(address) + offset;
    return to_symbol ? device::copy(place, host, bytes, kind, stream, waiting)
                     : device::copy(host, place, bytes, kind, stream, waiting);
  });
}
}  // namespace

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
  return copy_variable(symbol, const_cast<void*>(from), bytes, offset, true, kind, nullptr,
                       device::Waiting::sync);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_variable(symbol, const_cast<void*>(from), bytes, offset, true, kind, stream,
                       device::Waiting::async);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
  return copy_variable(symbol, to, bytes, offset, false, kind, nullptr, device::Waiting::sync);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_variable(symbol, to, bytes, offset, false, kind, stream, device::Waiting::async);
}
