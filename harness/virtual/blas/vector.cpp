// Levels 1 and 2: vectors, and matrices with vectors. Bound by memory; the counts are multiply-adds
// and elements moved.
#include <cuda_runtime_api.h>

#include <limits>

#include "harness/virtual/blas/blas.h"

using namespace tidemark::blas;

namespace {
double square(int n) { return d(n) * d(n); }

// A scalar result: the device's when the pointer mode says so; on the host there is no value to
// give, and the caller has waited for it.
Status reduce(const Handle* h, const char* name, cudaDataType type, double madds, double elements,
              void* result, bool index = false) {
  const Status status = work(h, name, type, madds, elements);
  if (status != success || h->pointer_mode != 0 || !result) return status;
  cudaStreamSynchronize(h->stream);
  if (index) {
    *static_cast<int*>(result) = 0;
  } else if (type == D) {
    *static_cast<double*>(result) = std::numeric_limits<double>::quiet_NaN();
  } else if (type == S) {
    *static_cast<float*>(result) = std::numeric_limits<float>::quiet_NaN();
  }
  return status;
}
}  // namespace

// One operation of `multiply_adds` and `elements`: of one type, of the two complex ones, of all
// four.
#define WORK(Name, T, parameters, multiply_adds, elements) \
  CUBLAS int cublas##Name##_v2 parameters { return work(h, #Name, T, multiply_adds, elements); }
// Lines without semicolons:
// clang-format off
#define WORK_OF_TWO(name, ...) WORK(C##name, C, __VA_ARGS__) WORK(Z##name, Z, __VA_ARGS__)
#define WORK_OF_FOUR(name, ...) \
  WORK(S##name, S, __VA_ARGS__) WORK(D##name, D, __VA_ARGS__) WORK_OF_TWO(name, __VA_ARGS__)

WORK_OF_FOUR(axpy, (Handle* h, int n, const void*, const void*, int, void*, int), d(n), 3 * d(n))
WORK_OF_FOUR(copy, (Handle* h, int n, const void*, int, void*, int), 0, 2 * d(n))
WORK_OF_FOUR(swap, (Handle* h, int n, void*, int, void*, int), 0, 4 * d(n))
WORK_OF_FOUR(scal, (Handle* h, int n, const void*, void*, int), d(n), 2 * d(n))
WORK_OF_FOUR(rot, (Handle* h, int n, void*, int, void*, int, const void*, const void*), 4 * d(n),
             4 * d(n))
WORK_OF_FOUR(rotg, (Handle* h, void*, void*, void*, void*), 4, 4)
// Names that mix letters: a real scalar with a complex vector.
WORK(Csscal, C, (Handle* h, int n, const void*, void*, int), d(n), 2 * d(n))
WORK(Zdscal, Z, (Handle* h, int n, const void*, void*, int), d(n), 2 * d(n))
WORK(Csrot, C, (Handle* h, int n, void*, int, void*, int, const void*, const void*), 4 * d(n),
     4 * d(n))
WORK(Zdrot, Z, (Handle* h, int n, void*, int, void*, int, const void*, const void*), 4 * d(n),
     4 * d(n))
WORK(Srotm, S, (Handle* h, int n, void*, int, void*, int, const void*), 4 * d(n), 4 * d(n))
WORK(Drotm, D, (Handle* h, int n, void*, int, void*, int, const void*), 4 * d(n), 4 * d(n))
WORK(Srotmg, S, (Handle* h, void*, void*, void*, const void*, void*), 4, 4)
WORK(Drotmg, D, (Handle* h, void*, void*, void*, const void*, void*), 4, 4)
// clang-format on

#define EXTREME(letter, T, which)                                                           \
  CUBLAS int cublasI##letter##which##_v2(Handle* h, int n, const void*, int, int* result) { \
    return reduce(h, "I" #T #which, T, 0, d(n), result, true);                              \
  }
// clang-format off: a line without semicolons
EXTREME(s, S, amax)
EXTREME(d, D, amax)
EXTREME(c, C, amax)
EXTREME(z, Z, amax)
EXTREME(s, S, amin)
EXTREME(d, D, amin)
EXTREME(c, C, amin)
EXTREME(z, Z, amin)
// clang-format on

// Names that mix letters: a real norm of a complex vector.
#define NORM(Name, T, real)                                                        \
  CUBLAS int cublas##Name##_v2(Handle* h, int n, const void*, int, void* result) { \
    const Status status = work(h, #Name, T, d(n), d(n));                           \
    return status == success ? reduce(h, #Name, real, 0, 0, result) : status;      \
  }
// clang-format off: a line without semicolons
NORM(Sasum, S, S)
NORM(Dasum, D, D)
NORM(Scasum, C, S)
NORM(Dzasum, Z, D)
NORM(Snrm2, S, S)
NORM(Dnrm2, D, D)
NORM(Scnrm2, C, S)
NORM(Dznrm2, Z, D)
// clang-format on
#define DOT(Name, T)                                                                 \
  CUBLAS int cublas##Name##_v2(Handle* h, int n, const void*, int, const void*, int, \
                               void* result) {                                       \
    return reduce(h, #Name, T, d(n), 2 * d(n), result);                              \
  }
// clang-format off: a line without semicolons
DOT(Sdot, S)
DOT(Ddot, D)
DOT(Cdotc, C)
DOT(Cdotu, C)
DOT(Zdotc, Z)
DOT(Zdotu, Z)
// clang-format on
CUBLAS
int cublasDotEx(Handle* h, int n, const void*, int x_type, int, const void*, int, int, void*, int,
                int) {
  return work(h, "DotEx", static_cast<cudaDataType>(x_type), d(n), 2 * d(n));
}
#define GEMV(T)                                                                                  \
  CUBLAS int cublas##T##gemv_v2(Handle* h, int, int m, int n, const void*, const void*, int lda, \
                                const void*, int, const void*, void*, int) {                     \
    if (m < 0 || n < 0 || lda < (m > 1 ? m : 1)) return invalid_value;                           \
    return work(h, #T "gemv", T, d(m) * d(n), d(m) * d(n) + d(m) + d(n));                        \
  }
FOUR(GEMV)

#define GER(Name, T)                                                                   \
  CUBLAS int cublas##Name##_v2(Handle* h, int m, int n, const void*, const void*, int, \
                               const void*, int, void*, int) {                         \
    return work(h, #Name, T, d(m) * d(n), 2 * d(m) * d(n) + d(m) + d(n));              \
  }

// clang-format off
WORK_OF_FOUR(symv,
             (Handle* h, int, int n, const void*, const void*, int, const void*, int, const void*,
              void*, int),
             square(n), square(n) / 2 + 2 * d(n))
WORK_OF_FOUR(syr, (Handle* h, int, int n, const void*, const void*, int, void*, int),
             square(n) / 2, square(n) + d(n))
WORK_OF_FOUR(syr2,
             (Handle* h, int, int n, const void*, const void*, int, const void*, int, void*, int),
             square(n), square(n) + 2 * d(n))
WORK_OF_FOUR(trmv, (Handle* h, int, int, int, int n, const void*, int, void*, int), square(n) / 2,
             square(n) / 2 + 2 * d(n))
WORK_OF_FOUR(trsv, (Handle* h, int, int, int, int n, const void*, int, void*, int), square(n) / 2,
             square(n) / 2 + 2 * d(n))
GER(Sger, S)
GER(Dger, D)
GER(Cgeru, C)
GER(Cgerc, C)
GER(Zgeru, Z)
GER(Zgerc, Z)
WORK_OF_TWO(hemv,
            (Handle* h, int, int n, const void*, const void*, int, const void*, int, const void*,
             void*, int),
            square(n), square(n) / 2 + 2 * d(n))
WORK_OF_TWO(her, (Handle* h, int, int n, const void*, const void*, int, void*, int), square(n) / 2,
            square(n) + d(n))
WORK_OF_TWO(her2,
            (Handle* h, int, int n, const void*, const void*, int, const void*, int, void*, int),
            square(n), square(n) + 2 * d(n))
// clang-format on
