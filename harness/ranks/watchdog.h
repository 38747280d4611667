// The watchdog of a rank on a real GPU: it ends a rank that makes no progress, because a collective
// whose partner does not come never returns, and a rank whose communication has failed.
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
  struct Eyes {
    std::function<std::uint64_t()> beats;  // moves as long as the rank gets further
    std::function<std::string()> trouble;  // empty while all is well
  };
  /// Calls `bite`, on a thread of its own and once: as soon as there is trouble, with it, or with
  /// an empty text when the beats have been the same for so long.
  Watchdog(Eyes eyes, std::chrono::milliseconds patience,
           std::function<void(const std::string& trouble)> bite);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(const Eyes& eyes, std::chrono::milliseconds patience,
             const std::function<void(const std::string&)>& bite);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tidemark
