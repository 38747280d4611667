#include "harness/virtual/nccl/failure.h"

#include <mutex>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/debug.h"

namespace tidemark::nccl {
namespace {

// Threads of the program may still fail at exit.
struct OfProcess {
  std::mutex mutex;
  std::uint64_t errors = 0, afterwards = 0;  // numbers of the last ones
  std::string text, text_afterwards;
};
OfProcess& of_process() { return device::immortal<OfProcess>(); }
thread_local std::uint64_t error_of_thread = 0;
thread_local std::string of_thread;

}  // namespace

void remember_error(const std::string& text, Moment moment) {
  OfProcess& process = of_process();
  std::lock_guard lock(process.mutex);
  process.text = text;
  (moment == Moment::in_call ? error_of_thread : process.afterwards) = ++process.errors;
  (moment == Moment::in_call ? of_thread : process.text_afterwards) = text;
}

std::string last_error() {
  const OfProcess& process = of_process();
  std::lock_guard lock(of_process().mutex);
  if (process.afterwards > error_of_thread) return process.text_afterwards;
  return of_thread.empty() ? process.text : of_thread;
}

ncclResult_t report_failure(const char* function, ncclResult_t code, const char* text) {
  std::string line = fmt::format("{}: {}", function, text);
  remember_error(line, Moment::in_call);
  if (says(Level::warn)) say(Level::warn, cuda::current_device(), line);
  return code;
}

}  // namespace tidemark::nccl
