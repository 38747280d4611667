// Waiting for other ranks, with a time-out, on machines with fewer cores than ranks.
#pragma once

#include <chrono>

namespace tidemark::nccl {

/// TIDEMARK_NCCL_ALONE=1: communicators are declared without partners.
bool declared_alone();

/// TIDEMARK_NCCL_WAITS=1: a call holds the host until the partners have called, and has their
/// errors.
bool waits_in_call();

/// Longest wait for another rank: TIDEMARK_TIMEOUT in seconds (fractions allowed), 300 without it.
std::chrono::duration<double> time_limit();

class Waiting {
 public:
  /// Gives the core to another thread: a yield at first, soon short sleeps.
  void rest();
  bool too_long() const { return std::chrono::steady_clock::now() - begun_ > limit_; }
  double limit_seconds() const { return limit_.count(); }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::chrono::duration<double> limit_ = time_limit();
  int rests_ = 0;
};

}  // namespace tidemark::nccl
