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
            // The documented ranges, as far as the parameters fit the device; numbers as far as the
            // reference trains in seconds.
            auto [layers, hidden] =
                draw.square({1, math ? 3 : 1}, {512, 65536}, std::int64_t{1} << (math ? 19 : 28));
            if (!math && draw.between(0, 2) == 0)
              layers = draw.between(1, 12),
              hidden = draw.pick({256, 257, 512, 513, 777, 1024, 1536, 2048, 3333});
            return Params{{"layers", layers},
                          {"hidden", hidden},
                          {"rows", draw.between(1, 128)},
                          {"bucket_bytes", draw.spread(1, std::int64_t{1} << 40)}};
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
