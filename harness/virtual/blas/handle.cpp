// Handles and their state, status texts, and the copies that cuBLAS offers.
#include <cuda_runtime_api.h>

#include "harness/virtual/blas/blas.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/memory_use.h"

using namespace tidemark::blas;

CUBLAS int cublasCreate_v2(Handle** handle) {
  if (!handle) return invalid_value;
  *handle = tidemark::device::handles<Handle>().make();
  tidemark::device::library_used(tidemark::device::Placement::Library::handle);
  return success;
}
CUBLAS int cublasDestroy_v2(Handle* handle) {
  return tidemark::device::handles<Handle>().destroy(handle) ? success : not_initialized;
}
CUBLAS int cublasGetVersion_v2(Handle*, int* version) {
  if (!version) return invalid_value;
  *version = tidemark::kBlasVersion;
  return success;
}
CUBLAS size_t cublasGetCudartVersion() { return CUDART_VERSION; }
CUBLAS const char* cublasGetStatusName(int status) {
  switch (status) {
    case success:
      return "CUBLAS_STATUS_SUCCESS";
    case not_initialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case invalid_value:
      return "CUBLAS_STATUS_INVALID_VALUE";
    default:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
}
CUBLAS const char* cublasGetStatusString(int status) { return cublasGetStatusName(status); }

// Setting the stream gives the workspace back, as cuBLAS documents.
CUBLAS int cublasSetStream_v2(Handle* handle, tidemark::device::StreamHandle stream) {
  if (!made(handle)) return not_initialized;
  handle->stream = stream;
  handle->workspace = nullptr;
  return success;
}
CUBLAS int cublasSetWorkspace_v2(Handle* handle, void* workspace, size_t) {
  if (!made(handle)) return not_initialized;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return invalid_value;
  tidemark::device::give_workspace(workspace);
  handle->workspace = workspace;
  return success;
}

#define PROPERTY(Setter, Getter, type, field)            \
  CUBLAS int Setter(Handle* handle, type value) {        \
    if (!made(handle)) return not_initialized;           \
    handle->field = value;                               \
    return success;                                      \
  }                                                      \
  CUBLAS int Getter(const Handle* handle, type* value) { \
    if (!made(handle)) return not_initialized;           \
    if (!value) return invalid_value;                    \
    *value = handle->field;                              \
    return success;                                      \
  }
PROPERTY(cublasSetMathMode, cublasGetMathMode, int, math_mode)
PROPERTY(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
PROPERTY(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)
PROPERTY(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_target)
CUBLAS int cublasGetStream_v2(const Handle* handle, tidemark::device::StreamHandle* stream) {
  if (!made(handle)) return not_initialized;
  if (!stream) return invalid_value;
  *stream = handle->stream;
  return success;
}

namespace {
int copy(int rows, int columns, int size, const void* from, int from_ld, void* to, int to_ld,
         cudaStream_t stream) {
  if (rows < 0 || columns < 0 || size <= 0 || from_ld <= 0 || to_ld <= 0) return invalid_value;
  if (rows == 0 || columns == 0) return success;
  const auto bytes = [size](int n) {
    return static_cast<std::size_t>(n) * static_cast<std::size_t>(size);
  };
  const cudaError_t error =
      cudaMemcpy2DAsync(to, bytes(to_ld), from, bytes(from_ld), bytes(rows),
                        static_cast<std::size_t>(columns), cudaMemcpyDefault, stream);
  return error == cudaSuccess ? 0 : 11;  // CUBLAS_STATUS_MAPPING_ERROR
}
}  // namespace

// A vector is a matrix of one row, its increment the leading dimension.
CUBLAS int cublasSetVectorAsync(int n, int size, const void* x, int incx, void* y, int incy,
                                cudaStream_t stream) {
  return copy(1, n, size, x, incx, y, incy, stream);
}
CUBLAS int cublasGetVectorAsync(int n, int size, const void* x, int incx, void* y, int incy,
                                cudaStream_t stream) {
  return copy(1, n, size, x, incx, y, incy, stream);
}
CUBLAS int cublasSetMatrixAsync(int rows, int columns, int size, const void* a, int lda, void* b,
                                int ldb, cudaStream_t stream) {
  return copy(rows, columns, size, a, lda, b, ldb, stream);
}
CUBLAS int cublasGetMatrixAsync(int rows, int columns, int size, const void* a, int lda, void* b,
                                int ldb, cudaStream_t stream) {
  return copy(rows, columns, size, a, lda, b, ldb, stream);
}
