// Small programs with one race each, and their corrected twins.
#pragma once

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tidemark::race::testing {

struct Program {
  const char* name;
  void (*run)(bool right);
  const char* first;  // the operators of the race that must be found
  const char* second;
};
/// A row of a table: a function, and the two operators.
#define PROGRAM(function, first, second) \
  { #function, function, first, second }

std::vector<Program> stream_programs();      // events, synchronisations, kinds of streams
std::vector<Program> memory_programs();      // the allocator, views, lists
std::vector<Program> transfer_programs();    // copies, memsets, the host
std::vector<Program> collective_programs();  // NCCL

using c10::cuda::CUDAEvent;
using c10::cuda::CUDAStream;
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
/// What `body` enqueues goes to `stream`.
template <class Body>
void on(const CUDAStream& stream, Body body) {
  const Guard guard(stream);
  body();
}

inline CUDAStream wrap(cudaStream_t stream) { return c10::cuda::getStreamFromExternal(stream, 0); }

#define CUDA_OK(expression) ASSERT_EQ(cudaSuccess, (expression)) << #expression

}  // namespace tidemark::race::testing
