// The memory of the training step on paper: what is allocated and freed, when and on which stream,
// from the algorithm and from what PyTorch's operators are documented (or written) to take;
// replayed in the model of the caching allocator. Nothing here is measured.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "cases/fsdp_prefetch/variants.h"

namespace tidemark::fsdp_prefetch {

/// What the plan must know of the device: cuBLAS's workspace, and the threads that fill it (they
/// decide how many blocks a copy-out is divided into, whose table is a temporary).
struct DeviceFacts {
  std::int64_t workspace_bytes = 0;
  std::int64_t processors = 0, threads_per_processor = 0;
};

/// Peak and end by phase and statistic in bytes, of the last step.
struct Predicted {
  std::map<std::string, std::array<Level, 4>> phases;
  std::array<Bytes, 4> rest{};  // before the last step's forward, gradients gone
};

Predicted replay(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device);

}  // namespace tidemark::fsdp_prefetch
