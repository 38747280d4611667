// Variants of the scenario. They differ in what a stage drops and when, nothing else.
#pragma once

#include "harness/parallel/pipeline_stage.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

const VariantTable<StagePolicy>& variants();

}  // namespace tidemark::zero_bubble_detach
