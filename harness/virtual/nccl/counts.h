// Calls of this process by communicator and function, with their bytes, for programs that ask what
// was communicated.
#pragma once

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

/// Counts a call that NCCL has accepted; its bytes are those of the larger of its two buffers.
void count_call(const Operation& operation);

}  // namespace tidemark::nccl
