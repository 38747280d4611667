// What a rank's memory must be: what a layer keeps of a microbatch, times layers, times
// microbatches in flight, and what the policies save of it.
#pragma once

#include <vector>

#include "cases/tp_buffer_reuse/model.h"
#include "cases/tp_buffer_reuse/variants.h"

namespace tidemark::tp_buffer_reuse {

/// Peaks and ends of forward, backward and optimizer in the last step, in all four statistics. A
/// control is held to the bound of the variant it pretends to be.
std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank);

/// The same for a device known by its facts alone.
std::vector<Expectation> closed_forms(const Trial& trial, const Variant& variant, int rank,
                                      const reference::DeviceFacts& device);

}  // namespace tidemark::tp_buffer_reuse
