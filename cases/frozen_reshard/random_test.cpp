#include "cases/random_test.h"

namespace tidemark::testing {

// At least four variants and three phases have replays and forms.
RandomTrials random_trials() {
  return {
      .scenario = "frozen_reshard",
      .seed = 3,
      .params =
          [](Draw& draw, const Trial& trial) {
            // Widths that no rank count divides, that blocks of the allocator round, and any
            // other.
            const bool numbers = trial.mode == Mode::math;
            auto [layers, hidden] =
                draw.square({2, 1}, {512, 65536}, std::int64_t{1} << (numbers ? 17 : 26));
            if (!numbers && draw.between(0, 1) == 0)
              layers = draw.between(2, 7),
              hidden = draw.pick({1, 3, 48, 100, 257, 777, 1000, 1536, 2048, 3333});
            const int microbatches = draw.pick({1, 1, 2, 3});
            const int rows = std::max(2, microbatches) * draw.between(1, 4);
            const bool flat = draw.between(0, 1) != 0;  // without what it refuses
            return Params{
                {"layers", layers},
                {"hidden", hidden},
                {"batch", trial.ranks * rows},
                {"pattern", flat ? draw.pick({0, 1, 2, 3, 4, 5, 6, 8}) : draw.between(0, 8)},
                {"adapter_rank", draw.pick({1, 4, 16, 33, 100})},
                {"reshard_after_forward", draw.pick({1, 1, 0})},
                {"microbatches", microbatches},
                {"in_flight", flat && microbatches > 1 ? 0 : draw.between(0, 1)},
                {"no_sync", draw.between(0, 2)},
                {"input_gradient", draw.between(0, 1)},
                {"shared_input", draw.pick({0, 0, 1})},
                {"thaw_step", draw.between(0, 2) ? 0 : draw.between(0, trial.steps - 2)},
                {"precision", draw.pick({0, 0, 1})},
                {"layout", flat},
                {"backward_prefetch", draw.pick({1, 1, 0})}};
          },
      .most_steps = 6,
      .alone = {.trials = 110,
                .at_least = {{"memory", 4 * 12},
                             {"trajectory", 4 * 2},
                             {"calls", 4 * 5},
                             {"order", 4},
                             {"control", 4}},
                .races = 8},  // they take most of the time
      .most_ranks = 16,
      .together = {
          .trials = 16, .at_least = {{"parity", 4 * 3}, {"memory", 4 * 12}}, .mode = Mode::math}};
}

}  // namespace tidemark::testing
