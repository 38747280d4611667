// The exported operations: every argument is checked here, so that nothing behind has to.
#include <limits>

#include "harness/virtual/nccl/api.h"
#include "harness/virtual/nccl/counts.h"
#include "harness/virtual/nccl/debug.h"
#include "harness/virtual/nccl/group.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/transport.h"

namespace {

using namespace tidemark::nccl;

constexpr int no_reduction = -1, no_root = -1;

void check(ncclDataType_t type) {
  if (type < 0 || type >= ncclNumTypes) {
    fail(ncclInvalidArgument, "datatype {} is none of NCCL's {}", static_cast<int>(type),
         static_cast<int>(ncclNumTypes));
  }
}

void check(const Operation& op) {
  const ncclComm& comm = *op.comm;
  const Call& call = op.call;
  bool needs_root = has_root(call.function) || !is_collective(call.function);
  if (needs_root && (call.root < 0 || call.root >= comm.size)) {
    fail(ncclInvalidArgument, "{} {} is not a rank of the communicator's {}",
         has_root(call.function) ? "root" : "peer", call.root, comm.size);
  }
  std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / size_of(call.type) /
                     static_cast<std::size_t>(comm.size);
  if (call.count > most)
    fail(ncclInvalidArgument, "count {} is more than any memory holds", call.count);
  if (call.count == 0) return;
  const Parts parts = parts_of(op);
  if (parts.sent > 0 && op.send == nullptr) fail(ncclInvalidArgument, "sendbuff is NULL");
  if (parts.received > 0 && op.recv == nullptr) fail(ncclInvalidArgument, "recvbuff is NULL");
}

void set_reduction(int reduction, Operation& operation) {
  if (reduction == no_reduction) return;
  if (reduction >= 0 && reduction < ncclNumOps) {
    constexpr Reduction built_in[] = {Reduction::sum, Reduction::prod, Reduction::max,
                                      Reduction::min, Reduction::avg};
    operation.call.reduction = built_in[reduction];
    return;
  }
  ncclComm& comm = *operation.comm;
  std::lock_guard lock(comm.mutex);
  auto place = comm.reductions.find(reduction);
  if (place == comm.reductions.end())
    fail(ncclInvalidArgument, "{} is not a reduction of this communicator", reduction);
  if (place->second.type != operation.call.type) {
    fail(ncclInvalidArgument, "the reduction was made for {}, the data is {}",
         name_of(place->second.type), name_of(operation.call.type));
  }
  operation.call.reduction = Reduction::premul_sum;
  operation.words[0] = place->second.bits;
  operation.device_scalar = place->second.device;
}

void say_call(const Operation& op) {
  say(Level::info, op.comm->device,
      fmt::format("{} sendbuff {} recvbuff {} comm {} [nranks={}] stream {}", text_of(op.call),
                  fmt::ptr(op.send), fmt::ptr(op.recv), fmt::ptr(op.comm), op.comm->size,
                  fmt::ptr(op.stream)));
}

// `root`: or the peer of a message.
ncclResult_t call(Function function, const void* send, void* recv, std::size_t count,
                  ncclDataType_t type, int reduction, int root, ncclComm_t handle,
                  cudaStream_t stream) {
  return at_border(name_of(function), [&] {
    try {
      ncclComm& comm = check_usable(handle);
      check(type);
      Operation operation{
          .comm = &comm,
          .call = {.function = function, .type = type, .root = root, .count = count},
          .send = send,
          .recv = recv,
          .stream = stream};
      check(operation);
      set_reduction(reduction, operation);
      operation.call.moves_data = moves_data(operation);
      if (comm.alone && operation.call.moves_data && !stands_for_partners()) {
        const std::string why = fmt::format(
            "{} stands for one of {} ranks without partners and cannot move data: run all ranks "
            "under mpirun, or switch data off (mode shapes)",
            text_of(comm), comm.size);
        note_refusal(why);
        fail(ncclInvalidUsage, "{}", why);
      }
      if (says(Level::info, Subsystem::coll)) say_call(operation);
      submit(operation);
      count_call(operation);
    } catch (const Failure& failure) {
      fail_group(failure.code(), failure.what());
      throw;
    }
  });
}

}  // namespace

NCCL_API(ncclResult_t, ncclAllReduce)
(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
 ncclComm_t comm, cudaStream_t stream) {
  return call(Function::all_reduce, send, recv, count, type, reduction, no_root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduceScatter)
(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
 ncclComm_t comm, cudaStream_t stream) {
  return call(Function::reduce_scatter, send, recv, count, type, reduction, no_root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduce)
(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t reduction, int root,
 ncclComm_t comm, cudaStream_t stream) {
  return call(Function::reduce, send, recv, count, type, reduction, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclAllGather)
(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
 cudaStream_t stream) {
  return call(Function::all_gather, send, recv, count, type, no_reduction, no_root, comm, stream);
}

NCCL_API(ncclResult_t, ncclBroadcast)
(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
 cudaStream_t stream) {
  return call(Function::broadcast, send, recv, count, type, no_reduction, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclBcast)
(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return call(Function::broadcast, buffer, buffer, count, type, no_reduction, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclAlltoAll)
(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
 cudaStream_t stream) {
  return call(Function::all_to_all, send, recv, count, type, no_reduction, no_root, comm, stream);
}

NCCL_API(ncclResult_t, ncclGather)
(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
 cudaStream_t stream) {
  return call(Function::gather, send, recv, count, type, no_reduction, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclScatter)
(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
 cudaStream_t stream) {
  return call(Function::scatter, send, recv, count, type, no_reduction, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclSend)
(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
 cudaStream_t stream) {
  return call(Function::send, send, nullptr, count, type, no_reduction, peer, comm, stream);
}

NCCL_API(ncclResult_t, ncclRecv)
(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(Function::recv, nullptr, recv, count, type, no_reduction, peer, comm, stream);
}
