// Step times of a real GPU over repetitions of a trial, in which the variants take turns.
#pragma once

#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// The step times of a trial's variants in one repetition, by the variant's place.
using StepTimes = std::vector<std::vector<Ns>>;
StepTimes step_times(const TrialRecord& trial);

/// Adds to every variant that has times its Timing: median and quartiles over all steps but the
/// first of each repetition (in which memory comes from the driver), and its ratio to the first
/// baseline. Ratios are taken within a repetition, so that a GPU whose clock drifts does not tell
/// on them: their median, the lowest and the highest.
void add_timing(TrialRecord& trial, const std::vector<StepTimes>& repetitions);

}  // namespace tidemark
