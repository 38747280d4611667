#include <cuda_runtime_api.h>

#include "harness/virtual/device/failure.h"

namespace device = tidemark::device;

const char* cudaGetErrorName(cudaError_t error) {
  const char* name = device::error_name(error);
  return name ? name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const char* text = device::error_text(error);
  return text ? text : "unrecognized error code";
}
cudaError_t cudaGetLastError() { return device::take_last_error(); }
cudaError_t cudaPeekAtLastError() { return device::peek_last_error(); }
