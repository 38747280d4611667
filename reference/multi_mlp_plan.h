// The memory of a training step of the model of multi_mlp.h in sharded units, one a block and a
// root for the norms: what its operators take, and its units (sharded_plan.h). Nothing here is
// measured.
#pragma once

#include <cstdint>

#include "reference/sharded_plan.h"

namespace tidemark::reference {

struct ShardedMultiMlp {
  std::int64_t layers = 1, hidden = 1, rows = 1;  // rows of one rank
  std::int64_t ranks = 1, rank = 0;
  int steps = 1;
  bool instant = true;            // the device; else it does nothing before the host waits for it
  bool explicit_prefetch = true;  // in forward, the next block's gather; backward's follows anyway
  ShardedOptions sharding = {};
};

/// Phases zero_grad, forward, backward and optimizer of the last step.
Predicted predict(const ShardedMultiMlp& model, const DeviceFacts& device);

}  // namespace tidemark::reference
