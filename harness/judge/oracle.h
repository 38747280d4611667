// The reference's numbers, on every rank.
#pragma once

#include "harness/ranks/world.h"
#include "harness/scenario.h"

namespace tidemark {

/// Computed once, on rank 0, and sent as raw doubles. All ranks call it together.
Oracle shared_oracle(const Scenario& scenario, const Trial& trial, World& world);

}  // namespace tidemark
