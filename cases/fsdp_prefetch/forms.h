// The forms: peaks of forward, backward and optimizer on paper.
#pragma once

#include <vector>

#include "harness/scenario.h"

namespace tidemark::fsdp_prefetch {

/// Peaks of the last of at least two steps, in requested, allocated and active bytes. Where
/// recorded buffers wait for a clock (calibrated, a real GPU), of allocated bytes alone. None of a
/// control.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);

/// What every symbol stands for.
std::vector<Symbol> symbols();

}  // namespace tidemark::fsdp_prefetch
