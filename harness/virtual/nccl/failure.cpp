#include "harness/virtual/nccl/failure.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace tidemark::nccl {
namespace {

// Not destroyed at exit: threads of the program may still fail then.
std::mutex& mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::string& of_process() {
  static auto* text = new std::string;
  return *text;
}
thread_local std::string of_thread;

bool verbose() {
  const char* level = std::getenv("NCCL_DEBUG");
  return level != nullptr && std::string_view(level) != "VERSION" && *level != '\0';
}

}  // namespace

void remember_error(const std::string& text) {
  of_thread = text;
  std::lock_guard lock(mutex());
  of_process() = text;
}

std::string last_error() {
  if (!of_thread.empty()) return of_thread;
  std::lock_guard lock(mutex());
  return of_process();
}

ncclResult_t report_failure(const char* function, ncclResult_t code, const char* text) {
  std::string line = fmt::format("{}: {}", function, text);
  remember_error(line);
  if (verbose()) std::fprintf(stderr, "nccl: %s\n", line.c_str());
  return code;
}

}  // namespace tidemark::nccl
