#include "harness/virtual/device/stream_value.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/copy.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/patience.h"
#include "harness/virtual/device/stream.h"

namespace tidemark::device {
cudaError_t write_value(StreamHandle stream, void* to, std::uint32_t value) {
  return fill(to, value, sizeof value, Rectangle{.width = sizeof value}, stream, Waiting::async);
}

cudaError_t await_value(StreamHandle stream, const void* at,
                        const std::function<bool(std::uint32_t)>& is_right) {
  if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
  if (is_capturing(stream)) {
    not_supported("libcuda", "cuStreamWaitValue32 in a stream capture");
    return cudaErrorNotSupported;
  }
  const bool on_device = device_of(at) >= 0;
  if (!at || reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint32_t) != 0 ||
      (!on_device && !is_pinned(at)))
    return cudaErrorInvalidValue;
  if (on_device && !data_moves() && !(follows_known() && is_known(at, sizeof(std::uint32_t))))
    return cudaErrorNotSupported;
  // Another thread, or an operation of a stream, changes the word.
  const std::atomic_ref word(*static_cast<std::uint32_t*>(const_cast<void*>(at)));
  const auto enough = patience_of_device();
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; !is_right(word.load(std::memory_order_acquire)); ++round) {
    if (std::chrono::steady_clock::now() - begin > enough) {
      std::fprintf(stderr, "tidemark: a stream has waited %g s for a value in memory\n",
                   enough.count());
      return cudaErrorLaunchTimeout;
    }
    if (round < 20)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  pay_launch(e);
  e.append(*s, 0, "wait for a value");
  return cudaSuccess;
}

}  // namespace tidemark::device
