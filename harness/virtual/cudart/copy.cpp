#include "harness/virtual/device/copy.h"

#include "harness/virtual/device/cuda_versions.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/peers.h"
#include "harness/virtual/device/stream.h"

namespace device = tidemark::device;
using device::call;
using device::Rectangle;
using device::Waiting;

namespace {

cudaError_t copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t height, cudaMemcpyKind kind, cudaStream_t stream, Waiting waiting,
                      const char* caller = __builtin_FUNCTION()) {
  const device::CallRecord record(device::Api::runtime, caller);
  const Rectangle shape{width, height, 1, to_pitch, from_pitch, 0, 0};
  return call([&] { return device::copy(to, from, shape, kind, stream, waiting); });
}

cudaError_t set_rows(void* to, size_t pitch, int value, size_t width, size_t height,
                     cudaStream_t stream, Waiting waiting,
                     const char* caller = __builtin_FUNCTION()) {
  const device::CallRecord record(device::Api::runtime, caller);
  const Rectangle shape{width, height, 1, pitch, pitch, 0, 0};
  return call(device::fill, to, static_cast<unsigned>(value), 1, shape, stream, waiting);
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&] { return device::copy(to, from, bytes, kind, stream, Waiting::async); });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return call([&] { return device::copy(to, from, bytes, kind, nullptr, Waiting::sync); });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int there, const void* from, int here, size_t bytes,
                                cudaStream_t stream) {
  return call([&] {
    if (const cudaError_t error = device::check_pair(there, here)) return error;
    return device::copy(to, from, bytes, cudaMemcpyDefault, stream, Waiting::async);
  });
}
cudaError_t cudaMemcpyPeer(void* to, int there, const void* from, int here, size_t bytes) {
  return call([&] {
    if (const cudaError_t error = device::check_pair(there, here)) return error;
    return device::copy(to, from, bytes, cudaMemcpyDefault, nullptr, Waiting::sync);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, Waiting::async);
}
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, nullptr, Waiting::sync);
}

namespace {

cudaError_t copy_box(cudaPitchedPtr to, cudaPos at, cudaPitchedPtr from, cudaPos begin,
                     cudaExtent extent, cudaMemcpyKind kind, cudaStream_t stream, Waiting waiting) {
  const Rectangle shape{extent.width, extent.height,       extent.depth,           to.pitch,
                        from.pitch,   to.pitch * to.ysize, from.pitch * from.ysize};
  const auto offset = [](const cudaPitchedPtr& p, const cudaPos& pos) {
    return static_cast<char*>(p.ptr) + (pos.z * p.ysize + pos.y) * p.pitch + pos.x;
  };
  return device::copy(offset(to, at), offset(from, begin), shape, kind, stream, waiting);
}

cudaError_t copy_box(const cudaMemcpy3DParms* p, cudaStream_t stream, Waiting waiting) {
  if (!p) return cudaErrorInvalidValue;
  if (p->srcArray || p->dstArray) {
    device::not_supported("libcudart", "cudaMemcpy3D with arrays");
    return cudaErrorNotSupported;
  }
  return copy_box(p->dstPtr, p->dstPos, p->srcPtr, p->srcPos, p->extent, p->kind, stream, waiting);
}

}  // namespace

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return call([&] { return copy_box(p, stream, Waiting::async); });
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return call([&] { return copy_box(p, nullptr, Waiting::sync); });
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  return call([&] {
    if (!p) return cudaErrorInvalidValue;
    if (p->srcArray || p->dstArray) {
      device::not_supported("libcudart", "cudaMemcpy3DPeer with arrays");
      return cudaErrorNotSupported;
    }
    return copy_box(p->dstPtr, p->dstPos, p->srcPtr, p->srcPos, p->extent, cudaMemcpyDefault,
                    stream, Waiting::async);
  });
}

cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes,
                                 size_t count, cudaMemcpyAttributes* attributes, size_t* starts,
                                 size_t kinds, cudaStream_t stream) {
  return call([&] {
    if (!to || !from || !bytes || count == 0 || !attributes || !starts || kinds == 0)
      return cudaErrorInvalidValue;
    if (reinterpret_cast<uintptr_t>(stream) <= 1)
      return cudaErrorInvalidValue;  // not on the legacy stream
    for (size_t i = 0; i < count; ++i) {
      if (cudaError_t e =
              device::copy(to[i], from[i], bytes[i], cudaMemcpyDefault, stream, Waiting::async))
        return e;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return set_rows(to, 0, value, bytes, 1, stream, Waiting::async);
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return set_rows(to, 0, value, bytes, 1, nullptr, Waiting::sync);
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return set_rows(to, pitch, value, width, height, stream, Waiting::async);
}
cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set_rows(to, pitch, value, width, height, nullptr, Waiting::sync);
}
