// Version 0: no cuDNN. PyTorch then takes its own kernels where it has them (attention: flash,
// efficient and math instead of cuDNN's, which needs 8.9.3; batch norm: native). Handles exist, so
// that a refusal names the function that would have computed something.
#include <cuda_runtime_api.h>

STUB(size_t, cudnnGetVersion)() { return 0; }
STUB(size_t, cudnnGetCudartVersion)() { return CUDART_VERSION; }
STUB(int, cudnnCreate)(void** handle) { return *handle = std::calloc(1, 16), 0; }
STUB(int, cudnnDestroy)(void* handle) { return std::free(handle), 0; }
STUB(int, cudnnSetStream)(void* handle, void* stream) {
  return *static_cast<void**>(handle) = stream, 0;
}
STUB(int, cudnnGetStream)(void* handle, void** stream) {
  return *stream = *static_cast<void**>(handle), 0;
}
STUB(const char*, cudnnGetErrorString)(int status) {
  return status == 0 ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}
STUB(void, cudnnGetLastErrorString)(char* message, size_t size) {
  std::strncpy(message, "not modelled by the virtual device", size);
  if (size > 0) message[size - 1] = 0;
}
