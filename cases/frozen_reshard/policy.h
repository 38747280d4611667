// The policies of the variants, which differ in when backward reshards frozen units and in what its
// end takes for granted; the setup of a trial; and what the files of the scenario share.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/parallel/policies.h"
#include "harness/scenario.h"
#include "reference/memory/sharded_plan.h"

namespace tidemark {
class World;
}

namespace tidemark::frozen_reshard {

struct Policy {
  ShardingOptions sharding = {.frozen = FrozenReshard::input_hooks};
  /// Parameters of the trial that a control sets itself, because without them it is right
  /// (microbatches: at least).
  Params needs = {};
};

const VariantTable<Policy>& variants();
/// The policy that the variant claims: its own, or for a control that of the fix that it imitates,
/// in the trial that it needs.
Policy claim_of(const Variant& variant);

/// Which units of a chain of layers are frozen. `adapters`: all layers, each with a trained unit
/// behind it (LoRA). `nested_adapters`: these units inside those of their layers. `mixed`: every
/// layer has two weights, of which the first is frozen, and in the even layers also the second.
enum class FreezingPattern {
  even,
  all_but_last,
  adapters,
  prefix,
  suffix,
  all_but_first,
  odd,
  mixed,
  nested_adapters
};
bool has_adapters(FreezingPattern pattern);
/// True if each unit is frozen: every parameter of it.
std::vector<bool> frozen_units(FreezingPattern pattern, std::int64_t layers);
/// From now on the first frozen unit is trained and the first trained one frozen.
void thaw(std::vector<bool>& frozen);

enum class NoSync { never, but_last, every_second };  // `every_second` of the trained units
/// True if each unit reduces its gradients in a backward, the last one of its step or not.
std::vector<bool> synced_units(const std::vector<bool>& frozen, NoSync no_sync, bool last);

/// A chain of linear layers, a sharded unit each; with adapters a second, low-rank path beside
/// every layer in a unit of its own (LoRA); and how a step's batch is divided.
struct Setup {
  std::int64_t layers = 1, hidden = 1;
  std::int64_t adapter_rank = 0;            // 0: no adapters
  bool nested = false;                      // an adapter's unit is inside its layer's
  bool mixed = false;                       // two weights a layer, the first always frozen
  std::int64_t microbatches = 1, rows = 1;  // rows of one microbatch on one rank
  bool in_flight = false;                   // all forwards of a step come before its backwards
  bool input_gradient = false;              // the input needs one
  bool shared_input = false;  // every layer adds one that all microbatches share: a learnt prompt
  std::int64_t ranks = 1, rank = 0;
  bool instant = true;  // the device; else it does nothing before the host waits for it
  ShardingOptions sharding = {};
  struct Step {  // by unit, layer by layer
    std::vector<bool> frozen;
    std::vector<std::vector<bool>> synced;  // by microbatch: its backward reduces the gradients
  };
  std::vector<Step> steps;

  bool flat() const { return sharding.layout == GatherLayout::flat; }
  std::int64_t weights() const { return mixed ? 2 : 1; }  // of a layer
  /// The step of this index, or where there are fewer the last one.
  const Step& step(int index) const {
    return steps.at(std::min(static_cast<std::size_t>(index), steps.size() - 1));
  }
  /// "" or, where there are several microbatches, "/0" and so on: the end of its phases' and
  /// moments' names.
  std::string suffix(std::int64_t microbatch) const {
    return microbatches == 1 ? "" : "/" + std::to_string(microbatch);
  }
};
/// The trial's parameters, without those that the policy sets itself.
Setup setup_of(const Trial& trial, const Policy& policy, int rank = 0);

/// True if freed blocks wait for a device with a clock of its own (calibrated, a real GPU): which
/// of them are free again when memory is asked for decides how large the blocks are that it gets.
bool waits_for_clock(const Trial& trial);

std::unique_ptr<Program> program(const Trial& trial, const Policy& policy, const World& world);

struct Prediction : reference::ShardedPrediction {
  std::int64_t frozen_bytes = 0;  // of frozen units still whole when it ends
};
/// Phases zero_grad, forward, backward (each with its microbatch's suffix) and optimizer of the
/// last step, of what the variant claims.
const Prediction& planned(const Trial& trial, const Variant& variant, int rank);
/// Equalities in all four statistics: the peaks of every forward, backward and the optimizer in the
/// last step, what every backward leaves, and the trajectory: residency when each unit's backward
/// begins, and at the end of backward before the catch-all; and their accounts. Where the trial
/// waits for a clock, accounts of allocated bytes alone. Of controls the trajectory alone.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);
/// The peaks of the last forward and the last backward, where kFormed says; not of controls.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);
std::vector<Symbol> symbols();
inline constexpr const char* kFormed =
    "on two or more ranks with layout=per_parameter, reshard_after_forward=yes, "
    "backward_prefetch=yes, shared_input=no, thaw_step=0, no nested or mixed units and one "
    "microbatch at a time; with adapters if their rank and the rows of a microbatch are at most an "
    "eighth of hidden, and no form of `replicated`";

/// Number of frozen units still whole when the backward of the unit two before them began, or (the
/// first two) when backward ended. Units are named "unit <index>", in the order of their forwards;
/// `frozen` has a flag for each. `nested`: layers, each with an adapter inside.
std::int64_t resharded_late(const std::vector<Call>& calls, const std::vector<bool>& frozen,
                            bool nested = false);

Oracle oracle(const Trial& trial);

}  // namespace tidemark::frozen_reshard
