#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <string>

#include "harness/virtual/device/failure.h"

namespace device = tidemark::device;
using device::call;

namespace {

// The driver's functions by their unversioned names, as cuGetProcAddress finds them.
void* find(const char* symbol) {
  static void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);
  if (!driver) return nullptr;
  for (const char* suffix : {"_v3", "_v2", ""}) {
    if (void* function = dlsym(driver, (std::string(symbol) + suffix).c_str())) return function;
  }
  return nullptr;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return call([&] {
    if (!symbol || !function) return cudaErrorInvalidValue;
    *function = find(symbol);
    if (result)
      *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    if (*function || result) return cudaSuccess;
    return cudaErrorSymbolNotFound;
  });
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}
