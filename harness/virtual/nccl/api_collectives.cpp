// The exported operations: every argument is checked here, so that nothing behind has to.
#include <limits>

#include "harness/virtual/nccl/api.h"
#include "harness/virtual/nccl/counts.h"
#include "harness/virtual/nccl/group.h"
#include "harness/virtual/nccl/transport.h"

namespace {

using namespace tidemark::nccl;

struct Arguments {
  Function function;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int reduction = -1;  // ncclRedOp_t, or -1
  int root = -1;       // or the peer
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

bool uses_send(const Arguments& of, int rank) {
  if (of.function == Function::recv) return false;
  return (of.function != Function::broadcast && of.function != Function::scatter) ||
         rank == of.root;
}

bool uses_recv(const Arguments& of, int rank) {
  if (of.function == Function::send) return false;
  return (of.function != Function::reduce && of.function != Function::gather) || rank == of.root;
}

void check(const Arguments& of, const ncclComm& comm) {
  if (of.type < 0 || of.type >= ncclNumTypes) {
    fail(ncclInvalidArgument, "datatype {} is none of NCCL's {}", static_cast<int>(of.type),
         static_cast<int>(ncclNumTypes));
  }
  bool needs_root = has_root(of.function) || !is_collective(of.function);
  if (needs_root && (of.root < 0 || of.root >= comm.size)) {
    fail(ncclInvalidArgument, "{} {} is not a rank of the communicator's {}",
         has_root(of.function) ? "root" : "peer", of.root, comm.size);
  }
  std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / size_of(of.type) /
                     static_cast<std::size_t>(comm.size);
  if (of.count > most)
    fail(ncclInvalidArgument, "count {} is more than any memory holds", of.count);
  if (of.count == 0) return;
  if (uses_send(of, comm.rank) && of.send == nullptr) fail(ncclInvalidArgument, "sendbuff is NULL");
  if (uses_recv(of, comm.rank) && of.recv == nullptr) fail(ncclInvalidArgument, "recvbuff is NULL");
}

void set_reduction(const Arguments& of, ncclComm& comm, Operation& operation) {
  if (of.reduction == -1) return;
  if (of.reduction >= 0 && of.reduction < ncclNumOps) {
    constexpr Reduction built_in[] = {Reduction::sum, Reduction::prod, Reduction::max,
                                      Reduction::min, Reduction::avg};
    operation.call.reduction = built_in[of.reduction];
    return;
  }
  std::lock_guard lock(comm.mutex);
  auto place = comm.reductions.find(of.reduction);
  if (place == comm.reductions.end())
    fail(ncclInvalidArgument, "{} is not a reduction of this communicator", of.reduction);
  if (place->second.type != of.type) {
    fail(ncclInvalidArgument, "the reduction was made for {}, the data is {}",
         name_of(place->second.type), name_of(of.type));
  }
  operation.call.reduction = Reduction::premul_sum;
  operation.words[0] = place->second.bits;
  operation.device_scalar = place->second.device;
}

ncclResult_t call(const Arguments& of) {
  return at_border(name_of(of.function), [&] {
    try {
      ncclComm& comm = check_usable(of.comm);
      check(of, comm);
      Operation operation;
      operation.comm = &comm;
      operation.call = {of.function,     static_cast<std::uint8_t>(of.type),
                        Reduction::none, false,
                        of.root,         of.count};
      operation.send = of.send;
      operation.recv = of.recv;
      operation.stream = of.stream;
      set_reduction(of, comm, operation);
      operation.call.moves_data = moves_data(operation);
      if (comm.alone && operation.call.moves_data && !stands_for_partners()) {
        fail(ncclInvalidUsage,
             "{} stands for one of {} ranks without partners and cannot move data: run all ranks "
             "under mpirun, or switch data "
             "off (mode shapes)",
             text_of(comm), comm.size);
      }
      submit(operation);
      count_call(operation);
    } catch (const Failure& failure) {
      fail_group(failure.code(), failure.what());
      throw;
    }
  });
}

}  // namespace

NCCL_API ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                                    ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return call({Function::all_reduce, send, recv, count, type, reduction, -1, comm, stream});
}

NCCL_API ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm,
                                        cudaStream_t stream) {
  return call({Function::reduce_scatter, send, recv, count, type, reduction, -1, comm, stream});
}

NCCL_API ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                                 ncclRedOp_t reduction, int root, ncclComm_t comm,
                                 cudaStream_t stream) {
  return call({Function::reduce, send, recv, count, type, reduction, root, comm, stream});
}

NCCL_API ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                                    ncclComm_t comm, cudaStream_t stream) {
  return call({Function::all_gather, send, recv, count, type, -1, -1, comm, stream});
}

NCCL_API ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                                    int root, ncclComm_t comm, cudaStream_t stream) {
  return call({Function::broadcast, send, recv, count, type, -1, root, comm, stream});
}

NCCL_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream) {
  return call({Function::broadcast, buffer, buffer, count, type, -1, root, comm, stream});
}

NCCL_API ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type,
                                   ncclComm_t comm, cudaStream_t stream) {
  return call({Function::all_to_all, send, recv, count, type, -1, -1, comm, stream});
}

NCCL_API ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                                 int root, ncclComm_t comm, cudaStream_t stream) {
  return call({Function::gather, send, recv, count, type, -1, root, comm, stream});
}

NCCL_API ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream) {
  return call({Function::scatter, send, recv, count, type, -1, root, comm, stream});
}

NCCL_API ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream) {
  return call({Function::send, send, nullptr, count, type, -1, peer, comm, stream});
}

NCCL_API ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream) {
  return call({Function::recv, nullptr, recv, count, type, -1, peer, comm, stream});
}

PROFILED(ncclAllReduce);
PROFILED(ncclReduceScatter);
PROFILED(ncclReduce);
PROFILED(ncclAllGather);
PROFILED(ncclBroadcast);
PROFILED(ncclBcast);
PROFILED(ncclAlltoAll);
PROFILED(ncclGather);
PROFILED(ncclScatter);
PROFILED(ncclSend);
PROFILED(ncclRecv);
