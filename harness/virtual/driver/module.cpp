// Modules that a program loads (NVRTC, Triton): of their code the compute capability is looked at,
// and what a cubin states about its kernels.
#include <dlfcn.h>

#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/kernel.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/stream.h"
#include "harness/virtual/device/text.h"
#include "harness/virtual/driver/result.h"

namespace device = tidemark::device;
using device::give;

namespace {

struct Module {
  std::optional<std::map<std::string, device::CompiledKernel>> compiled;  // of a cubin
  std::map<std::string, device::Kernel*> kernels;  // those that were asked for
};

struct Modules {
  std::mutex mutex;
  std::uintptr_t next = 0x100;
  std::map<std::uintptr_t, Module> loaded;
};

Modules& modules() { return device::immortal<Modules>(); }

cudaError_t load(CUmodule* module, const void* image) {
  if (!module || !image) return cudaErrorInvalidValue;
  device::Kernel probe;
  probe.code = image;
  device::Image chosen;
  if (cudaError_t error = device::image_of(probe, &chosen)) return error;
  Modules& m = modules();
  std::lock_guard lock(m.mutex);
  *module = reinterpret_cast<CUmodule>(m.next);
  m.loaded[m.next++].compiled = device::kernels_of(image);
  return cudaSuccess;
}

device::Kernel* kernel_of(CUfunction f) { return device::find_kernel(f); }

cudaError_t launch(CUfunction function, const device::Launch& what) {
  const cudaError_t error = device::launch_kernel(kernel_of(function), what);
  device::take_refusal();  // the driver has no last error: the caller sees it now or not at all
  return error;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return answer([&] { return load(module, image); });
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return answer([&] { return load(module, image); });
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return answer([&] { return load(module, image); });
}
CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return answer([&] {
    if (!path) return cudaErrorInvalidValue;
    const std::optional<std::string> image = tidemark::text_of_file(path);
    if (!image) return cudaErrorFileNotFound;
    return device::is_code_file(*image) ? load(module, image->c_str())
                                        : cudaErrorInvalidKernelImage;
  });
}
CUresult cuModuleUnload(CUmodule module) {
  return answer([&] {
    std::lock_guard lock(modules().mutex);
    return modules().loaded.erase(reinterpret_cast<std::uintptr_t>(module))
               ? cudaSuccess
               : cudaErrorInvalidResourceHandle;
  });
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return answer([&] {
    if (!function || !name) return cudaErrorInvalidValue;
    Modules& m = modules();
    std::lock_guard lock(m.mutex);
    auto loaded_module = m.loaded.find(reinterpret_cast<std::uintptr_t>(module));
    if (loaded_module == m.loaded.end()) return cudaErrorInvalidResourceHandle;
    auto& [compiled, kernels] = loaded_module->second;
    if (compiled && !compiled->contains(name)) return cudaErrorSymbolNotFound;
    device::Kernel*& kernel = kernels[name];
    if (!kernel) kernel = device::make_kernel(name, compiled ? &compiled->at(name) : nullptr);
    *function = reinterpret_cast<CUfunction>(kernel);
    return cudaSuccess;
  });
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return answer([&] {
    const device::Kernel* kernel = kernel_of(function);
    if (!value) return cudaErrorInvalidValue;
    if (!kernel) return cudaErrorInvalidResourceHandle;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return give(value, kernel->compiled.max_threads);
      case CU_FUNC_ATTRIBUTE_NUM_REGS:
        return give(value, kernel->compiled.registers);
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return give(value, kernel->max_dynamic_shared);
      case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        return give(value, kernel->compiled.shared);
      case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        return give(value, kernel->compiled.local);
      case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        return give(value, 0);
      default:
        return cudaErrorInvalidValue;
    }
  });
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return answer([&] {
    device::Kernel* kernel = kernel_of(function);
    if (!kernel) return cudaErrorInvalidResourceHandle;
    switch (attribute) {
      case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return device::set_dynamic_shared(*kernel, value);
      case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return device::set_carveout(*kernel, value);
      // Clusters change no memory and no check of a launch here.
      case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        return value >= 0 ? cudaSuccess : cudaErrorInvalidValue;
      case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        return value == 0 || value == 1 ? cudaSuccess : cudaErrorInvalidValue;
      case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
                       value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
                   ? cudaSuccess
                   : cudaErrorInvalidValue;
      // One that is read alone, or that a newer driver has: programs then do without it.
      default:
        return cudaErrorInvalidValue;
    }
  });
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {  // a hint
  return answer([&] {
    if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL)
      return cudaErrorInvalidValue;
    return kernel_of(function) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     size_t shared) {
  return answer(device::occupancy, kernel_of(function), threads, shared, blocks);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** arguments, void**) {
  return answer([&] {
    return launch(function, {dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared,
                             stream, false, arguments});
  });
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream,
                                   void** arguments) {
  return answer([&] {
    return launch(function, {dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared,
                             stream, true, arguments});
  });
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void**) {
  return answer([&] {
    if (!config) return cudaErrorInvalidValue;
    const auto& c = *config;
    bool cooperative = false;
    if (c.numAttrs > 0 && !c.attrs) return cudaErrorInvalidValue;
    for (unsigned i = 0; i < c.numAttrs; ++i) {
      const CUlaunchAttribute& attribute = c.attrs[i];
      if (attribute.id < CU_LAUNCH_ATTRIBUTE_IGNORE ||
          attribute.id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
        return cudaErrorInvalidValue;
      cooperative |= attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative;
    }
    return launch(function, {dim3(c.gridDimX, c.gridDimY, c.gridDimZ),
                             dim3(c.blockDimX, c.blockDimY, c.blockDimZ), c.sharedMemBytes,
                             c.hStream, cooperative, arguments});
  });
}

// Descriptors of tensors, which kernels alone read (TMA), and these do nothing.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* steps,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  return answer([&] {
    constexpr cuuint32_t kMostDimensions = 5;
    if (!map || !address || !sizes || (rank > 1 && !strides) || !box || !steps || rank == 0 ||
        rank > kMostDimensions)
      return cudaErrorInvalidValue;
    *map = {};
    std::memcpy(map, &address, sizeof address);  // a kernel that gets it may write there (known.h)
    return cudaSuccess;
  });
}
