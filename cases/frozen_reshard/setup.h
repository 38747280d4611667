// Setup of a trial of the scenario: sizes, which units are frozen in which step, and how a step's
// batch is divided. The program and the plan read it.
#pragma once

#include "cases/frozen_reshard/variants.h"
#include "harness/parallel/linear_chain.h"
#include "reference/linear_chain_plan.h"

namespace tidemark::frozen_reshard {

using Setup = reference::ShardedLinearChain;

/// Of the trial's parameters, those that the policy sets itself aside.
Setup setup_of(const Trial& trial, const Policy& policy, int rank = 0);
/// Of its model.
LinearChainShape shape_of(const Setup& setup);
ShardingOptions options_of(const Policy& policy, const Setup& setup);

}  // namespace tidemark::frozen_reshard
