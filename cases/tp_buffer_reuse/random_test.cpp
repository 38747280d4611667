#include "cases/random_test.h"

#include <algorithm>

namespace tidemark::testing {

// Every variant that is no control has a form of requested bytes for both ends of each phase. The
// linear after attention is the highest in a narrow range only: its weight is larger than X, that
// of queries, keys and values smaller than 2*X, and there are many ranks.
RandomTrials random_trials() {
  return {.scenario = "tp_buffer_reuse",
          .seed = 2,
          .params =
              [](Draw& draw, const Trial& trial) {
                const bool numbers = trial.mode == Mode::math;
                const int ranks = trial.ranks, bf16 = draw.between(0, 1);
                const int kv_heads = ranks * draw.between(1, numbers ? 1 : 3);
                const int groups = draw.pick({1, 1, 2, 4});
                const int head = 8 * (numbers && !bf16 ? draw.between(1, 2)
                                                       : draw.pick({1, 2, 5, 8, 9, 16, 20, 32}));
                // Numbers cost what the weights have, layers * hidden^2, and shapes what a step
                // calls, layers of all microbatches. Weights of shapes, with gradients and Adam 64
                // bytes for each of that at most, take less than half of the device.
                const int widest = std::max(1, 1024 / (kv_heads * head));
                const int heads = kv_heads * (numbers ? std::min(groups, widest) : groups);
                const int hidden = heads * head;
                const int in_flight = draw.between(1, 4), accumulation = draw.pick({1, 1, 2, 3});
                const auto held = static_cast<int>(std::min(
                    std::int64_t{64},
                    (std::int64_t{ranks} << 29) / (std::int64_t{hidden} * std::int64_t{hidden})));
                const int most = numbers ? std::min(12, (2 << 20) / (hidden * hidden))
                                         : std::min({64, 240 / (in_flight * accumulation), held});
                const int sequence = ranks * draw.between(1, numbers ? 3 : draw.pick({3, 30, 300}));
                return Params{
                    {"layers", draw.spread(1, std::max(1, most))},
                    {"hidden", hidden},
                    {"ffn", ranks * draw.between(1, numbers ? 40 : draw.pick({1, 40, 900}))},
                    {"heads", heads},
                    {"kv_heads", kv_heads},
                    {"sequence", sequence + (ranks == 1 ? 1 : 0)},
                    {"microbatch", draw.between(1, 3)},
                    {"in_flight", in_flight},
                    {"accumulation", accumulation},
                    {"precision", bf16},
                    {"main_weights", bf16 * draw.between(0, 1)},
                    {"clip", draw.pick({0, 0, 1, 10, 100})},
                    {"optimizer", draw.between(0, 1)}};
              },
          .most_steps = 3,
          .alone = {.trials = 100,
                    .at_least = {{"memory/form/requested/", 5 * 6}, {"", 80}},
                    .races = 0},  // the trials of the sizes look for them
          .together = {.trials = 6,
                       .at_least = {{"parity/", 6 * 3}},
                       .mode = Mode::math,
                       .races = 0,
                       .controls = false},
          .processes = 2,
          .highest = {"the linear after the GLU", "the GLU", "the linear of gate and up",
                      "the linear after attention", "attention",
                      "the linear of queries, keys and values", "the last attention"},
          .on_paper = 150,
          .besides = {{"tp_buffer_reuse",
                       "random",
                       "instant",
                       {{"layers", 1},
                        {"hidden", 2048},
                        {"ffn", 8},
                        {"heads", 32},
                        {"kv_heads", 8},
                        {"sequence", 952},
                        {"microbatch", 2},
                        {"in_flight", 1},
                        {"accumulation", 1},
                        {"precision", 0},
                        {"main_weights", 0},
                        {"clip", 0},
                        {"optimizer", 0}},
                       Mode::shapes,
                       8,
                       2,
                       0}}};
}

}  // namespace tidemark::testing
