// Variants of the scenario. They differ in when backward reshards frozen units, and in what its end
// takes for granted.
#pragma once

#include "harness/parallel/sharded_step.h"
#include "harness/scenario.h"

namespace tidemark::frozen_reshard {

struct Policy {
  FrozenReshard frozen = FrozenReshard::input_hooks;
  bool remove_hooks = true;
  bool catch_all_misses = false;
  bool root_decides_sync = false;
  /// A trainable unit is gathered again after its backward, and never freed.
  bool stays_regathered = false;
  /// Parameters of the trial that a control sets itself, because without them it is right
  /// (microbatches: at least).
  Params needs = {};
};

const VariantTable<Policy>& variants();
/// Why a variant has no place in a trial, or empty.
std::string leave_out(const Trial& trial, const Variant& variant);

}  // namespace tidemark::frozen_reshard
