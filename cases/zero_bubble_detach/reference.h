// The numbers that the variants are held against.
#pragma once

#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

/// The whole batch on one process in double precision (reference/language_model.h).
Oracle oracle(const Trial& trial);

}  // namespace tidemark::zero_bubble_detach
