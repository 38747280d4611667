#include "harness/cli/progress.h"

#include <fmt/format.h>

#include <cstdio>

namespace tidemark {

void Progress::operator()(const std::string& what) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (live_)
    fmt::print(stderr, "\r\033[K[{}/{}] {} ({:.1f} s)", trial_, count_, what, seconds);
  else if (what != last_)
    fmt::print(stderr, "[{}/{}] {} ({:.1f} s)\n", trial_, count_, what, seconds);
  last_ = what;
}

void Progress::done() const {
  if (live_) fmt::print(stderr, "\r\033[K");
}

}  // namespace tidemark
