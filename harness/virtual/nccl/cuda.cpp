#include "harness/virtual/nccl/cuda.h"

#include <dlfcn.h>

#include "harness/virtual/nccl/failure.h"

namespace tidemark::nccl::cuda {
namespace {

template <typename Function>
Function* find(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    static void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (runtime != nullptr) symbol = dlsym(runtime, name);
  }
  if (symbol == nullptr) fail(ncclSystemError, "no CUDA runtime with {} is loaded", name);
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace

int current_device() {
  static auto* get = find<int(int*)>("cudaGetDevice");
  int device = 0;
  get(&device);
  return device;
}

int allocate(void** address, std::size_t size) {
  static auto* allocate = find<int(void**, std::size_t)>("cudaMalloc");
  return allocate(address, size);
}

int release(void* address) {
  static auto* release = find<int(void*)>("cudaFree");
  return release(address);
}

OnDevice::OnDevice(int device)
    : before_(current_device()), device_(device), set_(find<int(int)>("cudaSetDevice")) {
  if (before_ != device_ && set_(device_) != 0)
    fail(ncclUnhandledCudaError, "there is no CUDA device {}", device_);
}

OnDevice::~OnDevice() {
  if (before_ != device_) set_(before_);
}

}  // namespace tidemark::nccl::cuda
