// The numbers that the variants are held against.
#pragma once

#include "harness/scenario.h"

namespace tidemark::fsdp_prefetch {

/// The whole batch on one process in double precision (reference/multi_mlp.h).
Oracle oracle(const Trial& trial);

}  // namespace tidemark::fsdp_prefetch
