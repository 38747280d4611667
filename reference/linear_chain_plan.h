// The memory of a training step of the model of linear_chain.h in sharded units, one a layer and
// one an adapter, of which some are frozen: what its operators take, and its units
// (sharded_plan.h). Nothing here is measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/sharded_plan.h"

namespace tidemark::reference {

struct ShardedLinearChain {
  std::int64_t layers = 1, hidden = 1;
  std::int64_t adapter_rank = 0;            // 0: no adapters
  std::int64_t microbatches = 1, rows = 1;  // rows of one microbatch on one rank
  bool in_flight = false;                   // all forwards of a step come before its backwards
  bool input_gradient = false;              // the input needs one
  bool shared_input = false;                // every layer adds one that all microbatches share
  std::int64_t ranks = 1, rank = 0;
  bool instant = true;  // the device; else it does nothing before the host waits for it
  ShardedOptions sharding = {};
  struct Step {  // by unit, layer by layer
    std::vector<bool> frozen;
    std::vector<std::vector<bool>> synced;  // by microbatch: its backward reduces the gradients
  };
  std::vector<Step> steps;

  /// The step of this index, or where there are fewer the last one.
  const Step& step(std::int64_t index) const;
  /// "" or, where there are several microbatches, "/0" and so on: the end of its phases' and
  /// moments' names.
  std::string suffix(std::int64_t microbatch) const;
};

struct LinearChainPrediction : ShardedPrediction {
  std::int64_t kept = 0;          // layers' units that are whole when the last step begins
  std::int64_t frozen_bytes = 0;  // of frozen units still whole when it ends
};

/// Phases zero_grad, forward, backward (each with its microbatch's suffix) and optimizer of the
/// last of the steps. The policy must be one that backward survives.
LinearChainPrediction predict(const ShardedLinearChain& chain, const DeviceFacts& device);

}  // namespace tidemark::reference
