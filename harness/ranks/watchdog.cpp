#include "harness/ranks/watchdog.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace tidemark {

std::jthread start_watchdog(Signs signs, std::chrono::milliseconds timeout,
                            std::function<void(const std::string&)> bite) {
  return std::jthread(
      [signs = std::move(signs), timeout, bite = std::move(bite)](const std::stop_token& over) {
        using std::chrono::milliseconds;
        const auto look = std::clamp(timeout / 10, milliseconds(1), milliseconds(1000));
        std::mutex mutex;
        std::condition_variable_any pause;  // which the end of the thread's owner cuts short
        std::unique_lock lock(mutex);
        auto last = signs.beats();
        auto since = std::chrono::steady_clock::now();
        while (!pause.wait_for(lock, over, look, [&] { return over.stop_requested(); })) {
          const std::string trouble = signs.trouble();
          if (const auto now = signs.beats(); now != last)
            last = now, since = std::chrono::steady_clock::now();
          if (trouble.empty() && std::chrono::steady_clock::now() - since < timeout) continue;
          return bite(trouble);
        }
      });
}

}  // namespace tidemark
