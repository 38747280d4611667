// Liveness of a partner: whether its process still listens. The kernel of its host answers, so that
// a process that is stopped or busy lives. Nothing here waits.
#pragma once

#include <chrono>
#include <string>

#include "harness/virtual/nccl/address.h"

namespace tidemark::nccl {

class Liveness {
 public:
  Liveness() = default;
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;
  ~Liveness() { forget(); }

  /// Why nothing more will come from the partner, as a predicate ("has ended"); "" while it may.
  /// Asks again from time to time. Who waits calls this again and again.
  std::string loss(const Address& own, const Address& partner);

  enum class Answer { none, listens, refused };
  /// Begins to ask, unless that is under way, and says what has come of it so far.
  Answer ask(const Address& own, const Address& partner);

 private:
  using Clock = std::chrono::steady_clock;
  void forget();

  int socket_ = -1;       // of the question that is open
  int error_ = 0;         // of the last one, other than a refusal
  bool reached_ = false;  // it has listened once
  Clock::time_point called_{}, asked_{}, silent_since_{}, refused_{};
};

}  // namespace tidemark::nccl
