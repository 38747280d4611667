// The numbers that the variants are held against.
#pragma once

#include "harness/scenario.h"

namespace tidemark::tp_buffer_reuse {

/// All microbatches on one process in double precision (reference/transformer.h).
Oracle oracle(const Trial& trial);

}  // namespace tidemark::tp_buffer_reuse
