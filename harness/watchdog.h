// Ends a rank that gets no further: on a real GPU a collective that somebody does not come to holds
// the host for ever, in a call that nothing returns from.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tidemark {

class Watchdog {
 public:
  /// Calls `bite`, on a thread of its own and once, when `beats` has returned the same for so long.
  Watchdog(std::function<std::uint64_t()> beats, std::chrono::milliseconds patience,
           std::function<void()> bite);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(const std::function<std::uint64_t()>& beats, std::chrono::milliseconds patience,
             const std::function<void()>& bite);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tidemark
