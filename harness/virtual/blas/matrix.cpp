// Level 3 beside the plain product, and the batched factorisations. Multiply-add counts are
// LAPACK's textbook ones.
#include "harness/virtual/blas/blas.h"

using namespace tidemark::blas;

namespace {
constexpr int left = 0;
int order(int side, int m, int n) { return side == left ? m : n; }

Status symmetric(const Handle* h, const char* name, cudaDataType T, int side, int m, int n) {
  const double a = d(order(side, m, n));
  return work(h, name, T, d(m) * d(n) * a, a * a / 2 + 3 * d(m) * d(n));
}
Status rank_k(const Handle* h, const char* name, cudaDataType T, int n, int k, int products) {
  return work(h, name, T, d(n) * d(n) * d(k) / 2 * products, d(n) * d(n) + d(n) * d(k) * products);
}
Status triangular(const Handle* h, const char* name, cudaDataType T, int side, int m, int n,
                  int batch = 1) {
  const double a = d(order(side, m, n));
  return work(h, name, T, d(batch) * d(m) * d(n) * a / 2, d(batch) * (a * a / 2 + 2 * d(m) * d(n)));
}
// The host's info: the arguments were fine.
Status with_info(int* info, Status status) {
  if (info) *info = 0;
  return status;
}
}  // namespace

#define SYMMETRIC(T, kind)                                                                         \
  CUBLAS int cublas##T##kind##mm_v2(Handle* h, int side, int, int m, int n, const void*,           \
                                    const void*, int, const void*, int, const void*, void*, int) { \
    return symmetric(h, #T #kind "mm", T, side, m, n);                                             \
  }                                                                                                \
  CUBLAS int cublas##T##kind##rk_v2(Handle* h, int, int, int n, int k, const void*, const void*,   \
                                    int, const void*, void*, int) {                                \
    return rank_k(h, #T #kind "rk", T, n, k, 1);                                                   \
  }                                                                                                \
  CUBLAS int cublas##T##kind##r2k_v2(Handle* h, int, int, int n, int k, const void*, const void*,  \
                                     int, const void*, int, const void*, void*, int) {             \
    return rank_k(h, #T #kind "r2k", T, n, k, 2);                                                  \
  }
#define SY(T) SYMMETRIC(T, sy)
FOUR(SY)
#define HE(T) SYMMETRIC(T, he)
HE(C)
HE(Z)

#define LEVEL3(T)                                                                                  \
  CUBLAS int cublas##T##trmm_v2(Handle* h, int side, int, int, int, int m, int n, const void*,     \
                                const void*, int, const void*, int, void*, int) {                  \
    return triangular(h, #T "trmm", T, side, m, n);                                                \
  }                                                                                                \
  CUBLAS int cublas##T##trsm_v2(Handle* h, int side, int, int, int, int m, int n, const void*,     \
                                const void*, int, void*, int) {                                    \
    return triangular(h, #T "trsm", T, side, m, n);                                                \
  }                                                                                                \
  CUBLAS int cublas##T##trsmBatched(Handle* h, int side, int, int, int, int m, int n, const void*, \
                                    const void* const*, int, void* const*, int, int batch) {       \
    return triangular(h, #T "trsmBatched", T, side, m, n, batch);                                  \
  }                                                                                                \
  CUBLAS int cublas##T##getrfBatched(Handle* h, int n, void* const*, int, int*, int*, int batch) { \
    return work(h, #T "getrfBatched", T, d(batch) * d(n) * d(n) * d(n) / 3,                        \
                d(batch) * 2 * d(n) * d(n));                                                       \
  }                                                                                                \
  CUBLAS int cublas##T##getrsBatched(Handle* h, int, int n, int nrhs, const void* const*, int,     \
                                     const int*, void* const*, int, int* info, int batch) {        \
    return with_info(info, work(h, #T "getrsBatched", T, d(batch) * d(n) * d(n) * d(nrhs),         \
                                d(batch) * (d(n) * d(n) + 2 * d(n) * d(nrhs))));                   \
  }                                                                                                \
  CUBLAS int cublas##T##geqrfBatched(Handle* h, int m, int n, void* const*, int, void* const*,     \
                                     int* info, int batch) {                                       \
    const double k = d(m < n ? m : n);                                                             \
    return with_info(info, work(h, #T "geqrfBatched", T, d(batch) * k * (d(m) * d(n) - k * k / 3), \
                                d(batch) * 2 * d(m) * d(n)));                                      \
  }                                                                                                \
  CUBLAS int cublas##T##gelsBatched(Handle* h, int, int m, int n, int nrhs, void* const*, int,     \
                                    void* const*, int, int* info, int*, int batch) {               \
    const double k = d(m < n ? m : n);                                                             \
    return with_info(info,                                                                         \
                     work(h, #T "gelsBatched", T, d(batch) * k * d(m) * (d(n) + 2 * d(nrhs)),      \
                          d(batch) * 2 * (d(m) * d(n) + d(m) * d(nrhs))));                         \
  }
FOUR(LEVEL3)
