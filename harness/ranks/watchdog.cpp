#include "harness/ranks/watchdog.h"

#include <algorithm>
#include <utility>

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Watchdog::Watchdog(Eyes eyes, std::chrono::milliseconds patience,
                   std::function<void(const std::string&)> bite)
    : thread_([this, eyes = std::move(eyes), patience, bite = std::move(bite)] {
        watch(eyes, patience, bite);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::watch(const Eyes& eyes, std::chrono::milliseconds patience,
                     const std::function<void(const std::string&)>& bite) {
  const auto look =
      std::clamp(patience / 10, std::chrono::milliseconds(1), std::chrono::milliseconds(1000));
  std::unique_lock lock(mutex_);
  auto last = eyes.beats();
  auto since = Clock::now();
  while (!changed_.wait_for(lock, look, [&] { return over_; })) {
    std::string trouble = eyes.trouble();
    const auto now = eyes.beats();
    if (now != last) {
      last = now;
      since = Clock::now();
    }
    if (trouble.empty() && Clock::now() - since < patience) continue;
    lock.unlock();
    bite(trouble);
    return;
  }
}

}  // namespace tidemark
