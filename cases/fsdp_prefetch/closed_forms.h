// Closed forms of a rank's memory: rest, units, shards, gradients.
#pragma once

#include <vector>

#include "cases/fsdp_prefetch/variants.h"
#include "harness/scenario.h"
#include "reference/multi_mlp_plan.h"

namespace tidemark::fsdp_prefetch {

using reference::DeviceFacts;
using reference::Predicted;

/// The memory of the step on paper.
Predicted replay(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device);

/// Peaks of forward, backward and optimizer in the last step, in all four statistics: equalities
/// wherever they follow from the program alone. Where recorded buffers wait for a clock
/// (calibrated, a real GPU), only `allocated` does.
std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank);

/// The same for a device known by its facts alone.
std::vector<Expectation> closed_forms(const Trial& trial, const Variant& variant, int rank,
                                      const DeviceFacts& device);

}  // namespace tidemark::fsdp_prefetch
