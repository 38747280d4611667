// Every verdict of every variant at parameters drawn at random: memory on any rank of up to 64 by
// itself, numbers and controls among partners.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "harness/testing/trials.h"

namespace tidemark {
Scenario ddp_bucket_view_scenario();

namespace ddp_bucket_view {
namespace {

// Numbers want a norm of several elements: of one, every gradient is zero on paper.
Trial drawn(testing::Draw& draw, int ranks, Mode mode) {
  const bool math = mode == Mode::math;
  const Params params{{"layers", draw.between(1, math ? 4 : 12)},
                      {"hidden", draw.between(0, 2) && !math
                                     ? draw.pick({256, 257, 512, 513, 777, 1024, 1536, 2048, 3333})
                                     : draw.between(math ? 8 : 1, math ? 60 : 3000)},
                      {"rows", draw.between(1, math ? 8 : 128)},
                      {"bucket_bytes", draw.between(1, 1 << draw.between(1, math ? 16 : 27))}};
  const char* schedule = draw.between(0, 1) ? "lagging" : "instant";
  return {"ddp_bucket_view", "random", schedule, params, mode, ranks, draw.between(2, 4), 0};
}

TEST(Random, EveryVerdictHolds) {
  World world(MPI_COMM_WORLD);
  const auto scenario = ddp_bucket_view_scenario();
  at::globalContext().lazyInitDevice(at::kCUDA);
  testing::Draw draw(71);
  const bool alone = world.size() == 1;
  const int trials = testing::seeds(alone ? 150 : 12);
  std::map<std::string, int> passed;
  const auto hold = [&](const Trial& trial, World& on) {
    const auto record = run_trial(scenario, trial, on, {.details = Details::none});
    for (const auto& [name, count] : testing::passed(record, trial)) passed[name] += count;
  };
  for (int i = 0; i < trials && !HasFailure(); ++i) {
    if (!alone) {
      hold(drawn(draw, world.size(), Mode::math), world);
      continue;
    }
    const int ranks = draw.between(1, 64);
    World one(draw.between(0, ranks - 1), ranks);
    hold(drawn(draw, ranks, Mode::shapes), one);
  }
  // At least, since rank 0 counts every rank's. 3 variants with 24 replays and 5 forms of requested
  // bytes each; numbers are held against the
  // reference's three times, and of fixes against the baseline's.
  EXPECT_GE(passed["memory"], trials * 3 * (24 + 5));
  EXPECT_GE(passed["control"], trials * (alone ? 1 : 2));
  EXPECT_GE(passed["cost"], trials * 3);
  EXPECT_GE(passed["parity"], alone ? 0 : trials * (3 * 3 + 2 * 3));
}

}  // namespace
}  // namespace ddp_bucket_view
}  // namespace tidemark
