// Exploration of a trial that has run: further runs of its variants that draw curves, against
// run-ahead and against size parameters.
#pragma once

#include <functional>
#include <vector>

#include "harness/ranks/world.h"
#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// The rank whose peak of allocated is highest, the first of them; the same on every rank. `record`
/// is this rank's.
int worst_rank(const RankRecord& record, const World& world);

struct Exploration {
  /// Ratios of device time to host time of a launch, one peak each; calibrated only.
  std::vector<double> run_ahead;
  /// Peaks of the first baseline and the drawn fix over the scenario's axes.
  bool growth = false;
};

/// The curves that this trial has: run-ahead curves only where the closed forms of one of
/// `selected` differ between instant and lagging; nothing on a real GPU.
Exploration applicable(const Scenario& scenario, const Trial& trial, int rank,
                       const std::vector<const Variant*>& selected, Exploration wanted);

/// Adds the curves of a variant, whose record on this rank is `own`, to `record`, and the verdicts
/// of growth to `verdicts`. To be called on every rank. Throws what the program throws.
void explore(const Scenario& scenario, const Trial& trial, const Variant& variant,
             const RankRecord& own, World& world, const Exploration& exploration,
             VariantRecord& record, std::vector<Verdict>& verdicts);

}  // namespace tidemark
