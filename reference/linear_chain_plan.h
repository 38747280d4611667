// The memory of a training step of the model of linear_chain.h in sharded units, one a layer and
// one an adapter, of which some are frozen: what its operators take, and its units
// (sharded_plan.h). Nothing here is measured.
#pragma once

#include <cstdint>
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
  std::vector<std::vector<bool>> frozen;    // by step and unit, layer by layer
  std::vector<std::vector<std::vector<bool>>> synced;  // by step, microbatch and unit: reduces
  std::int64_t ranks = 1, rank = 0;
  bool instant = true;  // the device; else it does nothing before the host waits for it
  ShardedOptions sharding = {};
};

struct LinearChainPrediction : ShardedPrediction {
  std::int64_t kept = 0;          // layers' units that are whole when the last step begins
  std::int64_t frozen_bytes = 0;  // of frozen units still whole when it ends
};

/// "" or, where there are several microbatches, "/0" and so on: the end of its phases' and moments'
/// names.
std::string microbatch_suffix(std::int64_t microbatches, std::int64_t microbatch);

/// Phases zero_grad, forward, backward (each with its microbatch's suffix) and optimizer of the
/// last step of `frozen`. The policy must be one that backward survives.
LinearChainPrediction predict(const ShardedLinearChain& chain, const DeviceFacts& device);

}  // namespace tidemark::reference
