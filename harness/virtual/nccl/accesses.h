// Accesses of an operation on its own rank, for race detection.
#pragma once

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

/// Call when the operation's kernel has been put on its stream.
void note_accesses(const Operation& operation);

}  // namespace tidemark::nccl
