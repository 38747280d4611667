// The toy (cases/toy) for the harness's own tests. Each flag breaks it from outside in one way.
#pragma once

#include "harness/scenario.h"

namespace tidemark::testing {

struct ToyFaults {
  bool fix_does_nothing = false;
  bool wrong_gradient = false;    // of the fix, by one part in a million
  bool leaks = false;             // the fix keeps one more tensor every step
  bool control_is_right = false;  // the control does what the fix does
  Bytes slack = 0;                // of every bound of a phase, where a unit has 4*n bytes
};

/// Variants: copy (baseline), in_place (fixed), of_a_copy (control, must be caught by memory/).
Scenario toy_scenario(const ToyFaults& faults = {});
/// With 4 rows on one rank, 3 steps.
Trial toy_trial(std::int64_t n, Mode mode, const std::string& schedule = "instant");

}  // namespace tidemark::testing
