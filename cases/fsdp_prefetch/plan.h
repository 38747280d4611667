// The memory of the training step on paper: what is allocated and freed, when and on which stream,
// from the algorithm and from what PyTorch's operators are documented (or written) to take;
// replayed in the model of the caching allocator. Nothing here is measured.
#pragma once

#include "cases/fsdp_prefetch/variants.h"
#include "reference/replay.h"

namespace tidemark::fsdp_prefetch {

using reference::DeviceFacts;
using reference::Predicted;

Predicted replay(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device);

}  // namespace tidemark::fsdp_prefetch
