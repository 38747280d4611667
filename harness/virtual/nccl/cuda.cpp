#include "harness/virtual/nccl/cuda.h"

#include <dlfcn.h>

#include "harness/virtual/device/symbol.h"
#include "harness/virtual/nccl/failure.h"

namespace tidemark::nccl::cuda {
namespace {

device::Symbol find(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    static void* runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (runtime != nullptr) symbol = dlsym(runtime, name);
  }
  if (symbol == nullptr) fail(ncclSystemError, "no CUDA runtime with {} is loaded", name);
  return {symbol};
}

int set_device(int device) {
  static int (*const set)(int) = find("cudaSetDevice");
  return set(device);
}

}  // namespace

int current_device() {
  static int (*const get)(int*) = find("cudaGetDevice");
  int device = 0;
  get(&device);
  return device;
}

int allocate(void** address, std::size_t size) {
  static int (*const allocate)(void**, std::size_t) = find("cudaMalloc");
  return allocate(address, size);
}

int release(void* address) {
  static int (*const release)(void*) = find("cudaFree");
  return release(address);
}

void communicator_made(int device) {
  static void* const told = dlsym(RTLD_DEFAULT, "tidemark_device_nccl_used");
  if (told != nullptr) reinterpret_cast<void (*)(int)>(told)(device);
}

OnDevice::OnDevice(int device) : before_(current_device()), device_(device) {
  if (before_ != device_ && set_device(device_) != 0)
    fail(ncclUnhandledCudaError, "there is no CUDA device {}", device_);
}

OnDevice::~OnDevice() {
  if (before_ != device_) set_device(before_);
}

}  // namespace tidemark::nccl::cuda
