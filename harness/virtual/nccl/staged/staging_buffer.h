// A stream's end of the staging: pinned memory through which its transfers pass, and the two words
// by which it and the proxy tell each other how far they are.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidemark::nccl {

class StagingBuffer {
 public:
  /// Buffer for a stream of the current device. It is never freed: streams outlive the library's
  /// calls.
  explicit StagingBuffer(CUstream stream);
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;

  // --- from the calling thread, in the order of the stream

  /// Pinned memory for the next transfer of so many bytes; what the stream did before is done with
  /// it by the time the stream gets there. Throws Failure.
  std::byte* room(std::size_t bytes);
  void copy(void* to, const void* from, std::size_t bytes);
  /// The stream says that it is here, and gets a number for it.
  std::uint32_t arrive();
  /// The stream waits for the answer to that number.
  void await(std::uint32_t number);

  // --- from the proxy

  bool arrived(std::uint32_t number) const;
  void answer(std::uint32_t number);

 private:
  struct Words;

  CUstream stream_;
  Words* words_ = nullptr;
  CUdeviceptr arrived_ = 0, answered_ = 0;  // the words, as the device knows them
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t number_ = 0;
};

}  // namespace tidemark::nccl
