// The record of a trial, gathered from all ranks.
#pragma once

#include "harness/ranks/world.h"
#include "harness/record/record.h"

namespace tidemark {

/// Every rank's part together on rank 0, the verdicts too; elsewhere what this rank has.
TrialRecord gather(TrialRecord mine, World& world);

}  // namespace tidemark
