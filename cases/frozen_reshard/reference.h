// The numbers that the variants are held against.
#pragma once

#include "harness/scenario.h"

namespace tidemark::frozen_reshard {

/// The whole batch on one process in double precision (reference/linear_chain.h).
Oracle oracle(const Trial& trial);

}  // namespace tidemark::frozen_reshard
