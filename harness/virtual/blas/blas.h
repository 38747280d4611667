// cuBLAS as the virtual device sees it: every call is one operation with the dimensions it was
// given. The prototypes are cuBLAS 13's; enumerations travel as int.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/virtual/device/cuda_versions.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/handles.h"
#include "harness/virtual/device/library_call.h"

#define CUBLAS extern "C" [[gnu::visibility("default")]]

namespace tidemark::blas {

enum Status { success = 0, not_initialized = 1, invalid_value = 7, not_supported = 15 };

enum Transpose { as_is = 0, transposed = 1, conjugated = 2 };

/// cublasComputeType_t, the values that change the rate.
enum Compute { compute_f32_fast_f16 = 74, compute_f32_fast_bf16 = 75, compute_f32_fast_tf32 = 77 };

struct Handle {
  device::StreamHandle stream = nullptr;
  void* workspace = nullptr;  // the caller's; null: cuBLAS's own
  int math_mode = 0;          // cublasMath_t; 3 = TF32 tensor cores
  int pointer_mode = 0;       // 0 host, 1 device
  int atomics_mode = 0;
  int sm_target = 0;
};

/// True if a caller's pointer is a live object that this library has made.
template <class T>
bool made(const T* object) {
  return device::handles<T>().has(object);
}

/// An element: its rate, its bytes, and the floating point operations of one multiply-add.
struct Element {
  device::Number number;
  double bytes;
  double multiply_add;
};
Element element_of(cudaDataType type);
/// The rate of a product of `type` under a math mode and a compute type (0: the type's own).
device::Number rate_of(cudaDataType type, int math_mode, int compute);

inline constexpr cudaDataType S = CUDA_R_32F, D = CUDA_R_64F, C = CUDA_C_32F, Z = CUDA_C_64F;
inline double d(int n) { return n; }

using device::refused;

/// One operation of `multiply_adds` and `elements` (read + written) on the handle's stream.
Status work(const Handle* handle, const char* name, cudaDataType type, double multiply_adds,
            double elements);

/// A matrix product C[m,n] = op(A)[m,k] op(B)[k,n] (+ C when it accumulates), `batch` times.
struct Product {
  int transpose_a, transpose_b;
  std::int64_t m, n, k, lda, ldb, ldc;
  cudaDataType a, b, c;
  bool accumulates;
  std::int64_t batch = 1;
};
Status product(const Handle* handle, const char* name, const Product& p, int compute = 0);
/// flops, rate and bytes of a product; shared with cublasLt.
device::Cost cost_of(const Product& p, int math_mode, int compute);

/// True if a scalar on the host, a double if `wide`, is zero; false for null.
bool is_zero(const void* scalar, bool wide);
/// False if beta is a scalar on the host and zero. A scalar on the device is not known.
bool accumulates(const Handle* handle, const void* beta, bool wide);

}  // namespace tidemark::blas

/// One function for each of cuBLAS's four scalar types: FOUR(BODY) expands BODY(letter).
#define FOUR(BODY) BODY(S) BODY(D) BODY(C) BODY(Z)
