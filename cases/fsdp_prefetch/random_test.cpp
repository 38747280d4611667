#include "cases/random_test.h"

namespace tidemark::testing {

RandomTrials random_trials() {
  return {.scenario = "fsdp_prefetch",
          .seed = 8,
          .params =
              [](Draw& draw, const Trial& trial) {
                // The documented ranges, as far as the parameters fit the device; numbers as far as
                // the reference trains in seconds.
                const bool math = trial.mode == Mode::math;
                auto [layers, hidden] = draw.square({1, math ? 3 : 1}, {512, 65536},
                                                    std::int64_t{1} << (math ? 19 : 28));
                // Widths that no rank count divides, and that blocks of the allocator round.
                if (!math && draw.between(0, 2) == 0)
                  layers = draw.between(1, 12),
                  hidden = draw.pick({3, 48, 100, 257, 384, 777, 1000, 1536, 2048, 3333});
                return Params{{"layers", layers},
                              {"hidden", hidden},
                              {"batch", draw.between(trial.ranks, 128)},
                              {"precision", draw.pick({0, 0, 1, 2})},
                              {"reshard_after_forward", draw.pick({1, 1, 0})}};
              },
          .most_steps = 7,
          .alone = {.trials = 50, .at_least = {{"memory", 7 * 10}}},
          .most_ranks = kMostRanks,
          .together = {.trials = 12,
                       .at_least = {{"memory", 7 * 10}, {"parity", 7 * 5 + 6 * 3}},
                       .mode = Mode::math}};
}

}  // namespace tidemark::testing
