#include "harness/virtual/device/stream_value.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/control.h"
#include "harness/virtual/device/copy.h"
#include "harness/virtual/device/deferred.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/patience.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/stream.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;

bool are_set(const std::uint32_t* words, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::atomic_ref word(const_cast<std::uint32_t&>(words[i]));
    if (word.load(std::memory_order_acquire) == 0) return false;
  }
  return true;
}

}  // namespace

cudaError_t write_value(StreamHandle stream, void* to, std::uint32_t value) {
  std::atomic_thread_fence(std::memory_order_release);  // its readers see what came before
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
  const auto begin = Clock::now();
  for (int round = 0; !is_right(word.load(std::memory_order_acquire)); ++round) {
    if (Clock::now() - begin > enough) {
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

using namespace tidemark::device;

void tidemark_device_run_when_signalled(void* stream, const uint32_t* words, size_t count,
                                        const char* name, int (*run)(void*), void* data,
                                        void (*destroy)(void*)) {
  const auto step = [=, name = std::string(name), begin = Clock::now(),
                     owned_data = std::shared_ptr<void>(data, destroy)] {
    if (sticky_error() != cudaSuccess) return true;
    if (are_set(words, count)) {
      if (run(owned_data.get()) != 0) break_context(cudaErrorLaunchFailure);
      return true;
    }
    if (Clock::now() - begin <= patience_of_device()) return false;
    say_once(name + " has waited one and a half times TIDEMARK_TIMEOUT for signals in memory");
    break_context(cudaErrorLaunchTimeout);
    return true;
  };
  defer_apart(static_cast<StreamHandle>(stream), step);
}
