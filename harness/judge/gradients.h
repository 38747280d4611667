// Errors of the gradients of step 0 against those of the baseline and of the reference, by which a
// reader finds where two programs diverge.
#pragma once

#include <vector>

#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// A row for each parameter of `mine`, in its order, the worst of its shards. `baseline` is null
/// for the baseline itself; `reference` holds whole parameters, whose shapes the rows get. A side
/// that lacks a parameter leaves its distance empty.
std::vector<GradientError> gradient_errors(const std::vector<Shard>& mine,
                                           const std::vector<Shard>* baseline,
                                           const std::vector<Shard>& reference);

}  // namespace tidemark
