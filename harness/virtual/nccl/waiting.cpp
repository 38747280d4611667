#include "harness/virtual/nccl/waiting.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tidemark::nccl {

void Waiting::rest() {
  if (++rests_ < 20) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + rests_ / 10, 1000)));
  }
}

}  // namespace tidemark::nccl
