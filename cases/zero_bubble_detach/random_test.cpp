#include "cases/random_test.h"

namespace tidemark::testing {

// Controls claim what a fixed variant holds, and are caught in the trials of the sizes.
RandomTrials random_trials() {
  return {.scenario = "zero_bubble_detach",
          .seed = 138119,
          .params =
              [](Draw& draw, const Trial& trial) {
                const int schedule =
                    draw.between(0, 9) < 3 ? draw.between(0, 2) : draw.between(3, 6);
                const bool interleaves = schedule == 2 || schedule >= 5;
                const int stages = schedule == 6 ? 2 : interleaves ? draw.between(1, 3) : 1;
                const int bf16 = draw.between(0, 1);
                // Numbers as far as they compute in seconds.
                const bool math = trial.mode == Mode::math;
                const int kv = draw.pick({1, 2, 3}), group = draw.pick({1, 1, 2, 4});
                return Params{{"layers", trial.ranks * stages + draw.between(0, 2 * trial.ranks)},
                              {"hidden", kv * group *
                                             (math ? draw.pick({8, 16})
                                                   : draw.pick({8, 16, 40, 64, 72, 128, 200}))},
                              {"ffn", draw.between(1, math ? 100 : 700)},
                              {"heads", kv * group},
                              {"kv_heads", kv},
                              {"vocabulary", draw.between(2, math ? 200 : 3000)},
                              {"sequence", math ? draw.pick({2, 3, 8, 31, 33})
                                                : draw.pick({1, 8, 31, 32, 33, 200, 1600, 3100})},
                              {"microbatch", draw.between(1, 3)},
                              {"microbatches", draw.between(1, 5)},
                              {"schedule", schedule},
                              {"virtual_stages", stages},
                              {"checkpointing", std::max(0, draw.between(-1, 2))},
                              {"precision", bf16},
                              {"block", draw.between(0, 3) == 0},
                              {"norm", bf16 == 1 && draw.between(0, 1) == 1},
                              {"habits", std::max(0, draw.between(-3, 3))},
                              {"losses", draw.between(0, 1)}};
              },
          .most_steps = 3,
          .alone = {.trials = 100,
                    .at_least = {{"memory", 9 * 5},
                                 {"memory/account/requested/pipeline", 6},
                                 {"memory/form/requested/pipeline", 0.05},
                                 {"trajectory", 9 * 5},
                                 {"rest/leak", 0.15}},
                    .races = 0,  // the trials of the sizes look for them
                    .controls = false},
          .together = {.trials = 12,
                       .at_least = {{"parity/", 11 * 3}},
                       .mode = Mode::math,
                       .races = 0,
                       .controls = false},
          .processes = 2};
}

}  // namespace tidemark::testing
