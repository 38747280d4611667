// The memory of the training step on paper: what is allocated and freed, when and on which stream,
// from the algorithm and from what PyTorch's operators and its autograd engine do; replayed in the
// model of the caching allocator. Nothing here is measured.
#pragma once

#include "cases/tp_buffer_reuse/dimensions.h"
#include "cases/tp_buffer_reuse/variants.h"
#include "reference/replay.h"

namespace tidemark::tp_buffer_reuse {

using reference::DeviceFacts;
using reference::Predicted;

/// Of the last step.
Predicted replay(const Dimensions& dimensions, const Layout& layout, int steps,
                 const DeviceFacts& device);

}  // namespace tidemark::tp_buffer_reuse
