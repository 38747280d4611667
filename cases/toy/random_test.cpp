#include "cases/random_test.h"

namespace tidemark::testing {

// At least of passed verdicts on a rank: baseline and fix with three forms of requested bytes each,
// and among partners the numbers of both against the reference and of the fix against the baseline.
RandomTrials random_trials() {
  return {.scenario = "toy",
          .seed = 1,
          .params =
              [](Draw& draw, const Trial& trial) {
                const bool math = trial.mode == Mode::math;
                return Params{{"n", draw.spread(1, math ? 1 << 10 : 1 << 15)},
                              {"rows", draw.spread(1, math ? 1 << 7 : 1 << 12)}};
              },
          .alone = {.trials = 20, .at_least = {{"memory", 2 * 3}, {"control", 1}, {"order", 2}}},
          .together = {.trials = 6,
                       .at_least = {{"memory", 2 * 3}, {"parity", 2 * 3 + 3}},
                       .mode = Mode::math},
          .processes = 2};
}

}  // namespace tidemark::testing
