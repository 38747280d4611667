// The memory of the training step on paper: what is allocated and freed, when and on which stream,
// from the algorithm and from what PyTorch's operators and its autograd engine do; replayed in the
// model of the caching allocator. Nothing here is measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "cases/tp_buffer_reuse/dimensions.h"
#include "cases/tp_buffer_reuse/variants.h"

namespace tidemark::tp_buffer_reuse {

/// What the plan must know of the device: cuBLAS's workspace, and its processors (they decide into
/// how many parts the flash kernel splits the keys).
struct DeviceFacts {
  std::int64_t workspace_bytes = 0;
  std::int64_t processors = 0;
};

/// Peak and end by phase and statistic in bytes, of the last step.
struct Predicted {
  std::map<std::string, std::array<Level, 4>> phases;
  std::array<Bytes, 4> rest{};  // before the last step
};

Predicted replay(const Dimensions& dimensions, const Layout& layout, int steps,
                 const DeviceFacts& device);

}  // namespace tidemark::tp_buffer_reuse
