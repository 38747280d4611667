// The policies of the variants, which differ in the layout and the references of their
// collectives, and what the files of the scenario share.
#pragma once

#include <memory>
#include <vector>

#include "harness/parallel/policies.h"
#include "harness/scenario.h"

namespace tidemark {
class World;
}

namespace tidemark::fsdp_prefetch {

struct Policy {
  ShardingOptions sharding;
  /// Every block gathers the next one ahead in forward and the one before it in backward.
  /// Otherwise forward gathers when it gets there, and backward the one before by the order of the
  /// forwards.
  bool explicit_prefetch = true;
};

const VariantTable<Policy>& variants();
/// The variant's, with the trial's precision and resharding.
Policy policy_of(const Trial& trial, const std::string& variant);

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world);

/// Peaks by the replay of the step in all four statistics. Empty of a control, and where recorded
/// buffers wait for a clock (calibrated, a real GPU).
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);
/// Peaks of the last of at least two steps, in requested, allocated and active bytes; where
/// recorded buffers wait for a clock, in allocated bytes alone.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);
std::vector<Symbol> symbols();

Oracle oracle(const Trial& trial);

}  // namespace tidemark::fsdp_prefetch
