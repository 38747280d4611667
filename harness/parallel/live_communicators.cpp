#include "harness/parallel/live_communicators.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <memory>
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

/// Shared with threads that may never come back.
struct UnderWay {
  std::mutex mutex;
  std::condition_variable changed;
  int left = 0;
};

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
  const auto under_way = std::make_shared<UnderWay>();
  under_way->left = static_cast<int>(mine.size());
  for (const auto& [comm, one] : mine) {
    try {
      std::thread([under_way, handle = comm, device = one.device] {
        cudaSetDevice(device);
        ncclCommAbort(handle);
        const std::lock_guard lock(under_way->mutex);
        --under_way->left;
        under_way->changed.notify_all();
      }).detach();
    } catch (const std::system_error&) {  // no thread to be had: it counts as not ended
    }
  }
  std::unique_lock lock(under_way->mutex);
  under_way->changed.wait_for(lock, patience, [&] { return under_way->left == 0; });
  return under_way->left;
}

bool aborted() { return live().aborted; }

}  // namespace tidemark::live_communicators
