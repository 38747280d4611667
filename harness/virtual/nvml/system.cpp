// NVML's functions that ask for no device.
#include <cuda.h>

#include <cstring>
#include <utility>

#include "harness/virtual/device/device.h"
#include "harness/virtual/nvml/state.h"

std::atomic<int> nvml_users{0};

nvmlReturn_t nvml_refuse(const char* function) {
  tidemark::device::not_supported("libnvidia-ml", function);
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvml_give(const std::string& text, char* to, unsigned size) {
  if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (size <= text.size()) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2() {
  ++nvml_users;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlInit() { return nvmlInit_v2(); }
nvmlReturn_t nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }

nvmlReturn_t nvmlShutdown() {
  int users = nvml_users;
  while (users > 0 && !nvml_users.compare_exchange_weak(users, users - 1)) {
  }
  return users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char* nvmlErrorString(nvmlReturn_t error) {
  constexpr std::pair<nvmlReturn_t, const char*> texts[] = {
      {NVML_SUCCESS, "The operation was successful"},
      {NVML_ERROR_UNINITIALIZED, "NVML was not first initialized with nvmlInit()"},
      {NVML_ERROR_INVALID_ARGUMENT, "A supplied argument is invalid"},
      {NVML_ERROR_NOT_SUPPORTED, "The requested operation is not available on target device"},
      {NVML_ERROR_NO_PERMISSION, "The current user does not have permission for operation"},
      {NVML_ERROR_NOT_FOUND, "A query to find an object was unsuccessful"},
      {NVML_ERROR_INSUFFICIENT_SIZE, "An input argument is not large enough"},
  };
  for (const auto& [code, text] : texts) {
    if (code == error) return text;
  }
  return "An internal driver error occurred";
}

// No NVIDIA driver has this version: it cannot be taken for one.
nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return nvml_users > 0 ? nvml_give("virtual", text, size) : NVML_ERROR_UNINITIALIZED;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = CUDA_VERSION;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}
