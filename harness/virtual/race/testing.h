// Small programs with one race each, and their corrected twins.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>

#include "harness/virtual/device/testing.h"

namespace tidemark::race::testing {

using c10::cuda::CUDAEvent;
using c10::cuda::CUDAStream;
using device::testing::make_event;
using device::testing::make_stream;
using Guard = c10::cuda::CUDAStreamGuard;

inline CUDAStream main_stream() { return c10::cuda::getDefaultCUDAStream(0); }
inline CUDAStream side_stream() { return c10::cuda::getStreamFromPool(false, 0); }
inline at::Tensor make(at::IntArrayRef size = {1024}) {
  return at::empty(size, at::TensorOptions().device(at::Device(at::kCUDA, 0)));
}
inline at::Tensor pinned(at::IntArrayRef size) {
  return at::empty(size, at::TensorOptions().pinned_memory(true));
}
/// `waiting` comes after all that `waited` holds now.
inline void wait(const CUDAStream& waiting, const CUDAStream& waited) {
  CUDAEvent event;
  event.record(waited);
  event.block(waiting);
}
/// Runs `body` with `stream` as the current stream.
template <class Body>
void on(const CUDAStream& stream, Body body) {
  const Guard guard(stream);
  body();
}

inline CUDAStream wrap(cudaStream_t stream) { return c10::cuda::getStreamFromExternal(stream, 0); }

/// Data of a program: its tensor and its side stream.
struct Scene {
  bool right;  // the corrected twin
  at::Tensor x = make();
  CUDAStream side = side_stream();

  void fill_on_side() const {
    on(side, [&] { x.fill_(1); });
  }
};

struct Program {
  const char* name;
  const char* first;  // the operators of the race that must be found
  const char* second;
  void (*run)(Scene& s);
};
using Add = std::function<void(const char* name, const char* first, const char* second,
                               void (*run)(Scene& s))>;

inline constexpr const char *kCopy = "aten::copy_", *kFill = "aten::fill_.Scalar",
                            *kNeg = "aten::neg", *kZero = "aten::zero_";

void stream_programs(const Add& add);      // events, synchronisations, kinds of streams
void memory_programs(const Add& add);      // the allocator, views, lists
void transfer_programs(const Add& add);    // copies, memsets, the host
void collective_programs(const Add& add);  // NCCL

}  // namespace tidemark::race::testing
