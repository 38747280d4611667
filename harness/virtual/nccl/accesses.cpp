// For race detection: which bytes a rank's own part of an operation reads and writes, on the stream
// of the call. What the others do to their buffers is ordered by the same kernel: a send buffer may
// be overwritten by what comes after it.
#include "harness/virtual/nccl/accesses.h"

#include "harness/virtual/nccl/cuda.h"

namespace tidemark::nccl {
namespace {

// Parts of `count` elements that a rank's send and receive buffers hold.
struct Parts {
  std::size_t sent, received;
};

Parts parts_of(const Operation& op) {
  const auto all = static_cast<std::size_t>(op.comm->size);
  const bool root = op.comm->rank == op.call.root;
  switch (op.call.function) {
    case Function::all_reduce:
      return {1, 1};
    case Function::all_gather:
      return {1, all};
    case Function::reduce_scatter:
      return {all, 1};
    case Function::all_to_all:
      return {all, all};
    case Function::broadcast:
      return {root ? std::size_t{1} : 0, 1};
    case Function::reduce:
      return {1, root ? std::size_t{1} : 0};
    case Function::gather:
      return {1, root ? all : 0};
    case Function::scatter:
      return {root ? all : 0, 1};
    case Function::send:
      return {1, 0};
    case Function::recv:
      return {0, 1};
    default:
      return {0, 0};
  }
}

}  // namespace

void note_accesses(const Operation& op) {
  if (!op.takes_time() || (op.stays_here() && op.send == op.recv)) return;
  const Parts parts = parts_of(op);
  const cuda::OnDevice on(op.comm->device);
  const char* name = name_of(op.call.function);
  device::note_access(op.stream, name, op.send, parts.sent * op.bytes(), false);
  device::note_access(op.stream, name, op.recv, parts.received * op.bytes(), true);
}

}  // namespace tidemark::nccl
