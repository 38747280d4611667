// What a recording would have been under other settings of PyTorch's allocator, on a GPU of another
// size, or after an edit of the program: its requests, made again in the allocator itself.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

struct WhatIf {
  /// As PYTORCH_CUDA_ALLOC_CONF has them; those of the recording stay where this does not name
  /// them.
  std::string settings;
  std::vector<std::string> edits;  // harness/memory/edit.h
  std::string gpu;                 // profile; empty: none
  Bytes capacity = 0;              // that the allocator can have; 0: the profile's, or no limit
};

/// The answer as JSON: "refused" with the reason, or the figures of the allocator up to the end of
/// the recording, up to the request that it had refused and that is served now
/// ("served_refused"), or up to a request that is refused here ("ran_out"). Each case runs in a
/// process of its own, since a process has one allocator.
nlohmann::ordered_json what_if(const Snapshot& snapshot, std::size_t device, const WhatIf& asked);

}  // namespace tidemark
