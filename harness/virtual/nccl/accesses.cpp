// For race detection: which bytes a rank's own part of an operation reads and writes, on the stream
// of the call. What the others do to their buffers is ordered by the same kernel: a send buffer may
// be overwritten by what comes after it.
#include "harness/virtual/nccl/accesses.h"

#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/slices.h"

namespace tidemark::nccl {

void note_accesses(const Operation& op) {
  if (!op.takes_time() || (op.stays_here() && op.send == op.recv)) return;
  const Parts parts = parts_of(op);
  const cuda::OnDevice on(op.comm->device);
  const char* name = name_of(op.call.function);
  device::note_access(op.stream, name, op.send, parts.sent * op.bytes(), false);
  device::note_access(op.stream, name, op.recv, parts.received * op.bytes(), true);
}

}  // namespace tidemark::nccl
