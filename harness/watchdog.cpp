#include "harness/watchdog.h"

#include <algorithm>
#include <utility>

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Watchdog::Watchdog(std::function<std::uint64_t()> beats, std::chrono::milliseconds patience,
                   std::function<void()> bite)
    : thread_([this, beats = std::move(beats), patience, bite = std::move(bite)] {
        watch(beats, patience, bite);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::watch(const std::function<std::uint64_t()>& beats,
                     std::chrono::milliseconds patience, const std::function<void()>& bite) {
  const auto look =
      std::clamp(patience / 10, std::chrono::milliseconds(1), std::chrono::milliseconds(1000));
  std::unique_lock lock(mutex_);
  auto last = beats();
  auto since = Clock::now();
  while (!changed_.wait_for(lock, look, [&] { return over_; })) {
    if (const auto now = beats(); now != last) {
      last = now;
      since = Clock::now();
    } else if (Clock::now() - since >= patience) {
      lock.unlock();
      bite();
      return;
    }
  }
}

}  // namespace tidemark
