// The CUDA runtime's interface where its releases differ: cudart/ and blas/ compile against the
// headers of CUDA 12.1 to 13. A function that a release declares with other parameters is an
// overload there, which stays inside the library.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#if CUDART_VERSION < 12080
struct cudaMemcpyAttributes;
inline constexpr int CUDA_R_4F_E2M1 = 33;
#endif
#if CUDART_VERSION < 12030
struct cudaGraphEdgeData;
#endif

namespace tidemark {

/// The version of cuBLAS that came with this CUDA, as cublasGetVersion gives it.
inline constexpr int kBlasVersion =
    CUDART_VERSION >= 13000 ? 130100
                            : CUDART_VERSION / 1000 * 10000 + CUDART_VERSION % 1000 / 10 * 100;

/// Fields of cudaDeviceProp that CUDA 13 no longer has, or that early releases of 12 do not have
/// yet. `get` answers a cudaDeviceAttr.
template <typename Properties, typename Get>
void fill_version_fields(Properties& p, Get get) {
  if constexpr (requires { p.deviceNumaId; }) p.deviceNumaId = p.hostNumaId = -1;
  if constexpr (requires { p.clockRate; }) {
    p.clockRate = get(cudaDevAttrClockRate);
    p.memoryClockRate = get(cudaDevAttrMemoryClockRate);
    p.deviceOverlap = get(cudaDevAttrAsyncEngineCount) > 0;
    p.maxTexture1DLinear = get(cudaDevAttrMaxTexture1DLinearWidth);
    p.singleToDoublePrecisionPerfRatio = get(cudaDevAttrSingleToDoublePrecisionPerfRatio);
  }
}

}  // namespace tidemark
