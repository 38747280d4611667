#include "harness/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "harness/print.h"
#include "reports/history/trial_times.h"

namespace tidemark {

void Progress::next() {
  ++trial_;
  begun_ = std::chrono::steady_clock::now();
}

std::string Progress::left() const {
  Ns sum = 0;
  for (std::size_t i = trial_ == 0 ? 0 : trial_ - 1; i < expected_.size(); ++i) {
    if (!expected_[i]) return "";
    sum += *expected_[i];
  }
  const Ns past = (std::chrono::steady_clock::now() - begun_) / std::chrono::nanoseconds(1);
  return sum > past ? fmt::format(", about {} left", in_minutes(sum - past)) : "";
}

void Progress::operator()(const std::string& what) {
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (live_)
    print_over(stderr, "[{}/{}] {} ({:.1f} s{})", trial_, expected_.size(), what, seconds, left());
  else if (what != last_)
    print(stderr, "[{}/{}] {} ({:.1f} s{})\n", trial_, expected_.size(), what, seconds, left());
  last_ = what;
}

void Progress::done() const {
  if (live_) print_over(stderr, "");
}

}  // namespace tidemark
