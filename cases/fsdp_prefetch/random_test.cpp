#include "cases/random_test.h"

namespace tidemark::testing {

RandomTrials random_trials() {
  return {.scenario = "fsdp_prefetch",
          .seed = 8,
          .params =
              [](Draw& draw, const Trial& trial) {
                // Widths that no rank count divides, that blocks of the allocator round, and any
                // other.
                const int hidden =
                    draw.between(0, 2)
                        ? draw.pick({3, 48, 100, 257, 384, 777, 1000, 1536, 2048, 3333})
                        : draw.between(1, 3000);
                return Params{{"layers", draw.between(1, 12)},
                              {"hidden", hidden},
                              {"batch", std::max(trial.ranks, draw.pick({8, 16, 24, 77, 128}))},
                              {"precision", draw.pick({0, 0, 1, 2})},
                              {"reshard_after_forward", draw.pick({1, 1, 0})}};
              },
          .most_steps = 7,
          .alone = {.trials = 120, .at_least = {{"memory", 7 * 10}}},
          .most_ranks = kMostRanks,
          .together = {.trials = 12, .at_least = {{"memory", 7 * 10}}}};
}

}  // namespace tidemark::testing
