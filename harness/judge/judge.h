// Verdicts: from what one rank has seen of all variants of a trial, what passes and what fails.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/judge/parity.h"
#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// One variant as one rank has seen it.
struct RankResult {
  const Variant* variant = nullptr;
  RankRecord record;
  Numbers numbers;      // empty in shapes
  std::string skipped;  // why it did not run
  std::string error;    // what ended it
  /// Elements of the reference's tensors that the ranks hold together, each counted once.
  std::int64_t held_gradients = 0, held_parameters = 0;
  bool ran() const { return skipped.empty() && error.empty(); }
};

/// A rank's measurement of an expectation; NaN where the program has no such phase or moment.
double measured(const RankRecord& record, const Expectation& expectation);
/// "memory/form/allocated/forward", "memory/account/requested/backward",
/// "memory/replay/reserved/backward/end", "trajectory/form/after F".
std::string verdict_name(const Expectation& expectation);
/// The name without the basis: "allocated/forward", "trajectory/after F".
std::string figure_name(const Expectation& expectation);

/// All verdicts of one rank. `oracle` is null in shapes. Every variant's own closed forms (equality
/// unless the expectation states a slack), savings against the first baseline, parity, rest,
/// trajectory through the expectations' moments, races; and for controls one verdict: that
/// something of the declared kind fails for them.
std::vector<Verdict> judge(const Scenario& scenario, const Trial& trial,
                           const std::vector<RankResult>& seen, const Oracle* oracle);

}  // namespace tidemark
