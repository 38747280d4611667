#include "harness/virtual/device/workers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/interposed.h"

namespace tidemark::device {
namespace {

constexpr auto kLongestRest = std::chrono::milliseconds(100);
constexpr auto kBetweenLooks = std::chrono::microseconds(20);

struct Workers {
  std::mutex mutex;
  std::vector<pthread_t> all;
  std::atomic<int> busy{0};  // those that do not wait for a node
};
Workers& workers() { return immortal<Workers>(); }

bool is_worker() {
  thread_local const bool is = [] {
    Workers& w = workers();
    const std::lock_guard lock(w.mutex);
    return std::ranges::find(w.all, pthread_self()) != w.all.end();
  }();
  return is;
}

}  // namespace

bool is_worker_loop(std::string_view type) {
  return type.find("5torch8autograd6EngineE") != type.npos;
}

void start_worker(const std::function<pthread_t()>& start) {
  // A forked process has none of its parent's workers.
  static const int at_fork = pthread_atfork(nullptr, nullptr, [] { new (&workers()) Workers; });
  (void)at_fork;
  is_worker();  // of this thread it is known, should it wait while it has the lock
  Workers& w = workers();
  const std::lock_guard lock(w.mutex);
  ++w.busy;
  w.all.push_back(start());
}

}  // namespace tidemark::device

void tidemark_device_backward_ends() {
  const auto begin = std::chrono::steady_clock::now();
  auto& busy = tidemark::device::workers().busy;
  if (busy == 0 || tidemark::device::is_worker()) return;  // a backward within another one
  while (busy > 0 && std::chrono::steady_clock::now() - begin < tidemark::device::kLongestRest)
    std::this_thread::sleep_for(tidemark::device::kBetweenLooks);
}

// In place of the C library's, for libstdc++ and all libraries of the process.
EXPORTED int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const wait =
      tidemark::device::next<decltype(pthread_cond_wait)>("pthread_cond_wait", "GLIBC_2.3.2");
  if (!tidemark::device::is_worker()) return wait(condition, mutex);
  --tidemark::device::workers().busy;
  const int error = wait(condition, mutex);
  ++tidemark::device::workers().busy;
  return error;
}
