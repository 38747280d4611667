// What a trial of the scenario is made of: the units in the order of their forwards, which of them
// are frozen in which step, and how a step's batch is divided. The program and the plan read it.
#pragma once

#include <string>
#include <vector>

#include "cases/frozen_reshard/variants.h"
#include "harness/parallel/freezing.h"
#include "harness/parallel/sharded_parameter.h"
#include "harness/scenario.h"

namespace tidemark::frozen_reshard {

struct UnitSetup {
  std::vector<ParameterShape> parameters;
  bool adapter = false;  // else the layer's own weight
};

struct Setup {
  /// Reads the trial's parameters, those that the policy sets itself aside.
  Setup(const Trial& trial, const Policy& policy);

  std::vector<UnitSetup> units() const;
  /// By unit.
  std::vector<bool> frozen(int step) const;
  /// By unit: whether the backward of this microbatch reduces its gradients.
  std::vector<bool> synced(int step, std::int64_t microbatch) const;
  /// "" or, where there are several microbatches, "/0" and so on.
  std::string suffix(std::int64_t microbatch) const;

  std::int64_t layers, hidden, adapter_rank;
  std::int64_t microbatches, rows;  // rows of one microbatch on one rank
  std::int64_t thaw_step;
  FreezingPattern pattern;
  NoSync no_sync;
  bool reshard_after_forward, in_flight, input_gradient, shared_input, half;
  std::int64_t element_bytes() const { return half ? 2 : 4; }
};

}  // namespace tidemark::frozen_reshard
