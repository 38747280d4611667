#include "harness/virtual/nccl/waiting.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tidemark::nccl {

void Waiting::rest() {
  if (++rests_ < 500) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(rests_ / 10, 1000)));
  }
}

}  // namespace tidemark::nccl
