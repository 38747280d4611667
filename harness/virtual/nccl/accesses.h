// For race detection: what an operation reads and writes on its own rank.
#pragma once

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

/// Call when the operation's kernel has been put on its stream.
void note_accesses(const Operation& operation);

}  // namespace tidemark::nccl
