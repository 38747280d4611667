// One rank's end of a communicator (what an ncclComm_t points to). Handles stay valid memory for
// ever, so that a use after destroy or abort is an error and not a crash.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/message.h"

namespace tidemark::nccl {

/// An operation made by ncclRedOpCreatePreMulSum.
struct PreMultiplied {
  ncclDataType_t type;
  std::int64_t bits = 0;         // the scalar: a double's bits for floating types, else the integer
  const void* device = nullptr;  // or where it will be when the collective runs
};

/// Processes and nodes of a communicator's ranks, by rank.
struct Members {
  std::vector<int> processes;  // numbers on the network
  std::vector<int> places;     // among the nodes (place.h)
};

enum class State { live, finalized, destroyed, aborted };
}  // namespace tidemark::nccl

struct ncclComm {
  using CommId = tidemark::nccl::CommId;

  CommId id;
  std::string name;  // ncclConfig_t::commName, or a number
  int rank = 0, size = 1, device = 0;
  bool alone = false;  // declared without partners: no one else is there
  tidemark::nccl::Members members;

  std::atomic<tidemark::nccl::State> state{tidemark::nccl::State::live};

  mutable std::mutex mutex;  // of what follows
  std::uint64_t calls = 0, children = 0, shrunk = 0;
  std::vector<std::uint64_t> sent, received;  // messages to and from each rank
  std::map<int, tidemark::nccl::PreMultiplied> reductions;
  std::map<void*, int> registered;  // buffers, and how often
  ncclResult_t error = ncclSuccess;
  std::string error_text;
  std::atomic<bool> error_is_told{false};  // by ncclCommGetAsyncError
};

namespace tidemark::nccl {

/// A new communicator of this process on the calling thread's device; never freed.
ncclComm* make_communicator(const CommId& id, int rank, Members members, bool alone,
                            const ncclConfig_t* config);

/// The communicator behind a handle. Throws Failure for null, a handle that was never ours, and
/// (check_usable) one that is finalized, destroyed, aborted or has met an error.
ncclComm& known(ncclComm_t handle);
ncclComm& check_usable(ncclComm_t handle);

/// The first error wins; later calls and ncclCommGetAsyncError report it.
void set_error(ncclComm& comm, ncclResult_t code, const std::string& text);
/// Takes up failures that other ranks reported, then says the communicator's error.
ncclResult_t poll_error(ncclComm& comm);
/// Tells the other ranks. `failure`: they are to fail as well; else it only matters to who waits
/// for this rank.
void notify(ncclComm& comm, int target, bool failure, const std::string& text);

/// Leaves: destroyed or aborted. Throws when it has been before.
void leave(ncclComm_t handle, State state);

/// "rank 2 of communicator 'dp' (4 ranks)"
std::string text_of(const ncclComm& comm);

}  // namespace tidemark::nccl
