#include "harness/virtual/nccl/staged/staging_buffer.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "harness/virtual/nccl/failure.h"

namespace tidemark::nccl {
namespace {

constexpr std::size_t kLeast = std::size_t{1} << 20;  // few buffers ever need less than they get

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(ncclUnhandledCudaError, "{}: {}", what, cudaGetErrorString(error));
}

// Functions of the driver that the runtime uses: linking a driver would be a second way to find it.
// Both functions have the same parameters.
using OnWord = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned);

OnWord* of_driver(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult query_result{};
  const auto error =
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &query_result);
  if (error != cudaSuccess || query_result != cudaDriverEntryPointSuccess)
    fail(ncclUnhandledCudaError, "the CUDA driver has no {}", name);
  return reinterpret_cast<OnWord*>(function);
}

void check(CUresult error, const char* what) {
  if (error != CUDA_SUCCESS)
    fail(ncclUnhandledCudaError, "{}: CUDA error {}", what, static_cast<int>(error));
}

void* pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
        "pinned memory for the staging");
  return memory;
}

CUdeviceptr on_device(std::uint32_t& word) {
  void* address = nullptr;
  check(cudaHostGetDevicePointer(&address, &word, 0), "a word of pinned memory");
  return reinterpret_cast<CUdeviceptr>(address);
}

}  // namespace

// Apart, so that neither side's polling disturbs the other.
struct StagingBuffer::Words {
  alignas(128) std::uint32_t arrived = 0;
  alignas(128) std::uint32_t answered = 0;
};

StagingBuffer::StagingBuffer(CUstream stream)
    : stream_(stream),
      words_(new(pinned(sizeof(Words))) Words),
      arrived_(on_device(words_->arrived)),
      answered_(on_device(words_->answered)) {}

std::byte* StagingBuffer::room(std::size_t bytes) {
  if (bytes > bytes_) {
    // The part of the old buffer that the stream still uses stays: less than the size of the new
    // one in all, and the host does not wait for the device.
    bytes_ = std::bit_ceil(std::max(bytes, kLeast));
    memory_ = static_cast<std::byte*>(pinned(bytes_));
  }
  return memory_;
}

void StagingBuffer::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0)
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "a copy of the staging");
}

std::uint32_t StagingBuffer::arrive() {
  static OnWord* const write = of_driver("cuStreamWriteValue32");
  check(write(stream_, arrived_, ++number_, CU_STREAM_WRITE_VALUE_DEFAULT), "cuStreamWriteValue32");
  return number_;
}

void StagingBuffer::await(std::uint32_t number) {
  static OnWord* const wait = of_driver("cuStreamWaitValue32");
  check(wait(stream_, answered_, number, CU_STREAM_WAIT_VALUE_GEQ), "cuStreamWaitValue32");
}

// Compares as the device does: numbers may wrap around.
bool StagingBuffer::arrived(std::uint32_t number) const {
  const auto word = std::atomic_ref(words_->arrived).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(word - number) >= 0;
}

void StagingBuffer::answer(std::uint32_t number) {
  std::atomic_ref(words_->answered).store(number, std::memory_order_release);
}

}  // namespace tidemark::nccl
