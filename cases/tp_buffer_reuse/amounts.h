// The amounts that the scenario's forms are sums of, on paper: from the sizes, and from what
// PyTorch's operators save and make.
#pragma once

#include <string>
#include <vector>

#include "cases/tp_buffer_reuse/model.h"
#include "harness/judge/form.h"
#include "reference/memory/replay.h"

namespace tidemark::tp_buffer_reuse {

/// Every symbol of the forms, in one sentence each.
std::vector<Symbol> symbols();

/// Every symbol's tensors on one rank, in a step after the first.
Vocabulary amounts(const Dimensions& sizes, const reference::DeviceFacts& device);

/// Whether attention's output is copied with the sequence outside.
inline bool copies_output(const Dimensions& sizes) { return !sizes.bf16 && sizes.batch > 1; }

}  // namespace tidemark::tp_buffer_reuse
