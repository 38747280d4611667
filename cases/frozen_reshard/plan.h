// The memory of the training step on paper: what is gathered, computed, reduced and freed, when and
// on which stream, from the algorithm and from what PyTorch's operators take; replayed in the model
// of the caching allocator. With it the calls in their order. Nothing here is measured.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cases/frozen_reshard/setup.h"
#include "harness/record.h"
#include "reference/replay.h"

namespace tidemark::frozen_reshard {

/// How many tensors as large as a whole unit are alive (its parameters, its gathered buffer, its
/// gradient, its reduce-scatter's input), and how many shards of a gradient. Layers only, adapters
/// do not count.
struct Composition {
  std::int64_t units = 0, shards = 0;
};

struct Expected {
  reference::Predicted predicted;
  std::map<std::string, Composition> at_peak;  // by phase, when allocated is highest
  struct Residency {
    std::string name;
    Bytes allocated = 0;
    Composition alive;
  };
  std::vector<Residency> moments;
  std::vector<Call> calls;
  std::int64_t kept = 0;   // layers' units that are whole when a step begins
  Bytes frozen_bytes = 0;  // of frozen units still whole when it ends
};

/// Of the last step. The policy must be one that backward survives.
Expected replay(const Trial& trial, const Policy& policy, int rank,
                const reference::DeviceFacts& device);

}  // namespace tidemark::frozen_reshard
