#include "harness/parallel/live_communicators.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tidemark::live_communicators {
namespace {

struct Live {
  std::string name;
  int device = 0;
};
using Communicators = std::vector<std::pair<ncclComm_t, Live>>;  // in the order of their creation
struct Register {
  std::mutex mutex;
  Communicators all;
  std::atomic<bool> aborted = false;
};

// Never destroyed: a watchdog may look at it until the process is gone.
Register& live() {
  static auto& instance = *new Register;
  return instance;
}

}  // namespace

void add(ncclComm* comm, const std::string& name) {
  Live one{name, 0};
  cudaGetDevice(&one.device);
  const std::lock_guard lock(live().mutex);
  live().all.emplace_back(comm, one);
}

bool take(ncclComm* comm) {
  const std::lock_guard lock(live().mutex);
  return std::erase_if(live().all, [&](const auto& each) { return each.first == comm; }) == 1;
}

// Under the lock, so that no owner destroys what is being asked.
std::string trouble() {
  const std::lock_guard lock(live().mutex);
  for (const auto& [comm, one] : live().all) {
    ncclResult_t error = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &error);
    if (asked != ncclSuccess) error = asked;
    if (error == ncclSuccess || error == ncclInProgress) continue;
    const char* last = ncclGetLastError(comm);
    return fmt::format("{}: {}{}{}", one.name, ncclGetErrorString(error),
                       last != nullptr && *last != 0 ? ": " : "", last != nullptr ? last : "");
  }
  return "";
}

// A thread for each: one may wait for a rank that first ends another one.
int abort_all(std::chrono::milliseconds patience) {
  Communicators mine;
  {
    const std::lock_guard lock(live().mutex);
    live().aborted = true;
    mine.swap(live().all);
  }
  int left = 0;
  std::vector<std::future<void>> ends;
  for (const auto& [comm, one] : mine) {
    std::packaged_task<void()> abort([handle = comm, device = one.device] {
      cudaSetDevice(device);
      ncclCommAbort(handle);
    });
    auto end = abort.get_future();
    try {
      std::thread(std::move(abort)).detach();
      ends.push_back(std::move(end));
    } catch (const std::system_error&) {  // no thread to be had: it counts as not ended
      ++left;
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (const auto& end : ends) left += end.wait_until(deadline) != std::future_status::ready;
  return left;
}

bool aborted() { return live().aborted; }

}  // namespace tidemark::live_communicators
