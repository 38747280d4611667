// The smallest scenario that has everything: one parameter w of n floats, loss = sum(w * x), a
// scratch buffer that the baseline keeps until the end of the step and the fix drops at once. Each
// way of breaking it is a flag.
#pragma once

#include "harness/scenario.h"

namespace tidemark::testing {

struct ToyFaults {
  bool fix_does_nothing = false;
  bool wrong_gradient = false;    // of the fix, by one part in a million
  bool leaks = false;             // the fix keeps one more tensor every step
  bool control_is_right = false;  // the control does what the fix does
  Bytes slack = 0;                // of every bound
};

/// Every bound of a phase has that slack from now on.
template <class Forms>
void give_slack(Forms& forms, Bytes slack) {
  forms = [before = forms, slack](const Trial& trial, const Variant& variant, int rank) {
    std::vector<Expectation> all = before(trial, variant, rank);
    for (Expectation& one : all)
      if (one.moment.empty()) one.slack = slack, one.why = "a test's";
    return all;
  };
}

/// Variants: keep (baseline), drop (fixed), keep_too (control, must be caught by memory/).
Scenario toy_scenario(const ToyFaults& faults = {});
Trial toy_trial(std::int64_t n, Mode mode, const std::string& schedule = "instant");

}  // namespace tidemark::testing
