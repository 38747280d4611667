#include "cases/random_test.h"

namespace tidemark::testing {

// Numbers want a norm of several elements: of one, every gradient is zero on paper. At least of
// passed verdicts, since rank 0 counts every rank's: 3 variants with 24 replays and 5 forms of
// requested bytes each; numbers are compared with the reference's three times, and of fixes against
// the baseline's.
RandomTrials random_trials() {
  return {
      .scenario = "ddp_bucket_view",
      .seed = 71,
      .params =
          [](Draw& draw, const Trial& trial) {
            const bool math = trial.mode == Mode::math;
            const int hidden = draw.between(0, 2) && !math
                                   ? draw.pick({256, 257, 512, 513, 777, 1024, 1536, 2048, 3333})
                                   : draw.between(math ? 8 : 1, math ? 60 : 3000);
            return Params{{"layers", draw.between(1, math ? 4 : 12)},
                          {"hidden", hidden},
                          {"rows", draw.between(1, math ? 8 : 128)},
                          {"bucket_bytes", draw.between(1, 1 << draw.between(1, math ? 16 : 27))}};
          },
      .alone = {.trials = 150, .at_least = {{"memory", 3 * (24 + 5)}, {"control", 1}, {"cost", 3}}},
      .most_ranks = kMostRanks,
      .together = {.trials = 12,
                   .at_least = {{"memory", 3 * (24 + 5)},
                                {"control", 2},
                                {"cost", 3},
                                {"parity", 3 * 3 + 2 * 3}},
                   .mode = Mode::math},
      .processes = 2};
}

}  // namespace tidemark::testing
