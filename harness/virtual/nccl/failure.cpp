#include "harness/virtual/nccl/failure.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "harness/virtual/device/immortal.h"

namespace tidemark::nccl {
namespace {

// Threads of the program may still fail at exit.
struct OfProcess {
  std::mutex mutex;
  std::string text;
};
OfProcess& of_process() { return device::immortal<OfProcess>(); }
thread_local std::string of_thread;

bool verbose() {
  const char* level = std::getenv("NCCL_DEBUG");
  return level != nullptr && std::string_view(level) != "VERSION" && *level != '\0';
}

}  // namespace

void remember_error(const std::string& text) {
  of_thread = text;
  std::lock_guard lock(of_process().mutex);
  of_process().text = text;
}

std::string last_error() {
  if (!of_thread.empty()) return of_thread;
  std::lock_guard lock(of_process().mutex);
  return of_process().text;
}

ncclResult_t report_failure(const char* function, ncclResult_t code, const char* text) {
  std::string line = fmt::format("{}: {}", function, text);
  remember_error(line);
  if (verbose()) std::fprintf(stderr, "nccl: %s\n", line.c_str());
  return code;
}

}  // namespace tidemark::nccl
