// The exported functions that make, ask and end communicators.
#include <functional>

#include "harness/virtual/nccl/api.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/group.h"
#include "harness/virtual/nccl/transport.h"
#include "harness/virtual/nccl/unique_id.h"

using namespace tidemark::nccl;

namespace {

ncclResult_t init_rank(const char* function, ncclComm_t* comm, int size, const ncclUniqueId* ids,
                       int id_count, int rank, const ncclConfig_t* config) {
  return at_border(function, [&] {
    try {
      if (comm != nullptr) *comm = nullptr;
      const CommId id = id_of(ids, id_count);
      submit(Request{comm, size, rank, *ids, id, config, cuda::current_device()});
    } catch (const Failure& failure) {
      fail_group(failure.code(), failure.what());
      throw;
    }
  });
}

/// `answer`: a member of the communicator, or a function of it.
template <typename Result, typename Answer>
ncclResult_t ask(const char* function, ncclComm_t handle, Result* result, Answer answer) {
  return at_border(function, [&] {
    ncclComm& comm = known(handle);
    if (result == nullptr) fail(ncclInvalidArgument, "the pointer to the result is NULL");
    if (comm.state == State::destroyed)
      fail(ncclInvalidArgument, "{} was destroyed before", text_of(comm));
    *result = std::invoke(answer, comm);
  });
}

}  // namespace

NCCL_API(ncclResult_t, ncclGetUniqueId)(ncclUniqueId* id) {
  return at_border("ncclGetUniqueId", [&] {
    if (id == nullptr) fail(ncclInvalidArgument, "the pointer to the unique id is NULL");
    *id = new_unique_id();
  });
}

NCCL_API(ncclResult_t, ncclCommInitRank)(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return init_rank("ncclCommInitRank", comm, size, &id, 1, rank, nullptr);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig)
(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return init_rank("ncclCommInitRankConfig", comm, size, &id, 1, rank, config);
}

NCCL_API(ncclResult_t, ncclCommInitRankScalable)
(ncclComm_t* comm, int size, int rank, int id_count, ncclUniqueId* ids, ncclConfig_t* config) {
  return init_rank("ncclCommInitRankScalable", comm, size, ids, id_count, rank, config);
}

NCCL_API(ncclResult_t, ncclCommFinalize)(ncclComm_t handle) {
  return at_border("ncclCommFinalize", [&] {
    ncclComm& comm = known(handle);
    settle(comm);
    State live = State::live;
    if (!comm.state.compare_exchange_strong(live, State::finalized)) {
      fail(ncclInvalidArgument, "{} was finalized, destroyed or aborted before", text_of(comm));
    }
  });
}

NCCL_API(ncclResult_t, ncclCommDestroy)(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return at_border("ncclCommDestroy", [&] {
    settle(known(comm));
    leave(comm, State::destroyed);
  });
}

NCCL_API(ncclResult_t, ncclCommAbort)(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return at_border("ncclCommAbort", [&] { leave(comm, State::aborted); });
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError)(ncclComm_t handle, ncclResult_t* error) {
  return ask("ncclCommGetAsyncError", handle, error, [](ncclComm& comm) {
    const ncclResult_t result = poll_error(comm);
    if (result != ncclSuccess) comm.error_is_told = true;
    return result;
  });
}

NCCL_API(ncclResult_t, ncclCommCount)(const ncclComm_t comm, int* count) {
  return ask("ncclCommCount", comm, count, &ncclComm::size);
}

NCCL_API(ncclResult_t, ncclCommUserRank)(const ncclComm_t comm, int* rank) {
  return ask("ncclCommUserRank", comm, rank, &ncclComm::rank);
}

NCCL_API(ncclResult_t, ncclCommCuDevice)(const ncclComm_t comm, int* device) {
  return ask("ncclCommCuDevice", comm, device, &ncclComm::device);
}
