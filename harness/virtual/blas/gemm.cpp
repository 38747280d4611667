// Matrix products: plain, batched, strided batched, grouped, and their mixed-type forms.
#include <cctype>

#include "harness/virtual/blas/blas.h"

using namespace tidemark::blas;
using i64 = long long;

namespace {
bool wide(cudaDataType type) { return type == CUDA_R_64F || type == CUDA_C_64F; }

// The scalar's type follows the compute type: 64F (70), 64F_PEDANTIC (71); CUBLAS_COMPUTE_16F (64,
// 65) has half scalars, whose zero has the same bits.
bool reads(const Handle* handle, const void* beta, int compute) {
  if (compute == 64 || compute == 65)
    return !made(handle) || !beta || handle->pointer_mode != 0 ||
           *static_cast<const std::uint16_t*>(beta) != 0;
  return accumulates(handle, beta, compute == 70 || compute == 71);
}
}  // namespace

#define GEMM(T)                                                                                  \
  CUBLAS int cublas##T##gemm_v2(Handle* h, int ta, int tb, int m, int n, int k, const void*,     \
                                const void*, int lda, const void*, int ldb, const void* beta,    \
                                void*, int ldc) {                                                \
    return product(h, #T "gemm",                                                                 \
                   {ta, tb, m, n, k, lda, ldb, ldc, T, T, T, accumulates(h, beta, wide(T))});    \
  }                                                                                              \
  CUBLAS int cublas##T##gemmBatched(Handle* h, int ta, int tb, int m, int n, int k, const void*, \
                                    const void* const*, int lda, const void* const*, int ldb,    \
                                    const void* beta, void* const*, int ldc, int batch) {        \
    return product(                                                                              \
        h, #T "gemmBatched",                                                                     \
        {ta, tb, m, n, k, lda, ldb, ldc, T, T, T, accumulates(h, beta, wide(T)), batch});        \
  }                                                                                              \
  CUBLAS int cublas##T##gemmStridedBatched(                                                      \
      Handle* h, int ta, int tb, int m, int n, int k, const void*, const void*, int lda, i64,    \
      const void*, int ldb, i64, const void* beta, void*, int ldc, i64, int batch) {             \
    return product(                                                                              \
        h, #T "gemmStridedBatched",                                                              \
        {ta, tb, m, n, k, lda, ldb, ldc, T, T, T, accumulates(h, beta, wide(T)), batch});        \
  }
FOUR(GEMM)

CUBLAS int cublasSgemmEx(Handle* h, int ta, int tb, int m, int n, int k, const float*, const void*,
                         cudaDataType a, int lda, const void*, cudaDataType b, int ldb,
                         const float* beta, void*, cudaDataType c, int ldc) {
  return product(h, "SgemmEx",
                 {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, accumulates(h, beta, false)});
}

CUBLAS int cublasGemmEx(Handle* h, int ta, int tb, int m, int n, int k, const void*, const void*,
                        cudaDataType a, int lda, const void*, cudaDataType b, int ldb,
                        const void* beta, void*, cudaDataType c, int ldc, int compute, int) {
  return product(h, "GemmEx", {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, reads(h, beta, compute)},
                 compute);
}

CUBLAS int cublasGemmBatchedEx(Handle* h, int ta, int tb, int m, int n, int k, const void*,
                               const void* const*, cudaDataType a, int lda, const void* const*,
                               cudaDataType b, int ldb, const void* beta, void* const*,
                               cudaDataType c, int ldc, int batch, int compute, int) {
  return product(h, "GemmBatchedEx",
                 {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, reads(h, beta, compute), batch},
                 compute);
}

CUBLAS int cublasGemmStridedBatchedEx(Handle* h, int ta, int tb, int m, int n, int k, const void*,
                                      const void*, cudaDataType a, int lda, i64, const void*,
                                      cudaDataType b, int ldb, i64, const void* beta, void*,
                                      cudaDataType c, int ldc, i64, int batch, int compute, int) {
  return product(h, "GemmStridedBatchedEx",
                 {ta, tb, m, n, k, lda, ldb, ldc, a, b, c, reads(h, beta, compute), batch},
                 compute);
}

// Groups of products of different sizes: one operation with the sum of their costs would hide which
// is which; the arrays of sizes lie on the host.
CUBLAS int cublasGemmGroupedBatchedEx(Handle* h, const int ta[], const int tb[], const int m[],
                                      const int n[], const int k[], const void*, const void* const*,
                                      cudaDataType a, const int lda[], const void* const*,
                                      cudaDataType b, const int ldb[], const void*, void* const*,
                                      cudaDataType c, const int ldc[], int groups,
                                      const int group_size[], int compute) {
  if (!made(h)) return not_initialized;
  if (groups < 0 || (groups > 0 && !(ta && tb && m && n && k && lda && ldb && ldc && group_size)))
    return invalid_value;
  for (int g = 0; g < groups; ++g) {
    const int status = product(
        h, "GemmGroupedBatchedEx",
        {ta[g], tb[g], m[g], n[g], k[g], lda[g], ldb[g], ldc[g], a, b, c, true, group_size[g]},
        compute);
    if (status != success) return status;
  }
  return success;
}
