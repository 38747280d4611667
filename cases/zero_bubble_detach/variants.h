// How the variants of the scenario differ: in what a stage drops and when, nothing else.
#pragma once

#include <vector>

#include "harness/parallel/pipeline_stage.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

std::vector<Variant> variants();
/// Throws std::out_of_range for a name that variants() does not have.
StagePolicy policy_of(const std::string& variant);

}  // namespace tidemark::zero_bubble_detach
