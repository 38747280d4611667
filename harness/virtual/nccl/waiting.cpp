#include "harness/virtual/nccl/waiting.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace tidemark::nccl {

void Waiting::rest() {
  if (++rests_ < 20) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(20 + rests_ / 10, 1000)));
  }
}

// Settings of this process's partners, from the environment.

namespace {
bool is_on(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && std::string_view(text) == "1";
}
}  // namespace

bool declared_alone() { return is_on("TIDEMARK_NCCL_ALONE"); }
bool waits_in_call() { return is_on("TIDEMARK_NCCL_WAITS"); }

std::chrono::duration<double> time_limit() {
  const char* text = std::getenv("TIDEMARK_TIMEOUT");
  double seconds = text == nullptr ? 0 : std::atof(text);
  return std::chrono::duration<double>(seconds > 0 ? seconds : 300);
}

}  // namespace tidemark::nccl
