// Forms and replays, the order and number of calls, and the controls against the program itself, at
// parameters drawn at random: every verdict of every variant.
#include "cases/frozen_reshard/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>
#include <map>
#include <tuple>

#include "cases/frozen_reshard/forms.h"
#include "harness/device/platform.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario frozen_reshard_scenario();

namespace frozen_reshard {
namespace {

class Draw : public testing::Draw {
 public:
  using testing::Draw::Draw;
  Trial trial(int ranks, Mode mode) {
    // Widths that no rank count divides, that blocks of the allocator round, and any other.
    const bool numbers = mode == Mode::math;
    const int hidden = numbers             ? pick({3, 16, 40, 57})
                       : between(0, 2) > 0 ? pick({1, 3, 48, 100, 257, 777, 1000, 1536, 2048, 3333})
                                           : between(1, 3000);
    const int microbatches = pick({1, 1, 2, 3}), steps = numbers ? 3 : between(2, 4);
    const Params params{{"layers", between(2, numbers ? 5 : 7)},
                        {"hidden", hidden},
                        {"batch", ranks * std::max(2, microbatches) * between(1, 4)},
                        {"pattern", between(0, 6)},
                        {"adapter_rank", pick({1, 4, 16, 33})},
                        {"reshard_after_forward", pick({1, 1, 0})},
                        {"microbatches", microbatches},
                        {"in_flight", between(0, 1)},
                        {"no_sync", between(0, 2)},
                        {"input_gradient", between(0, 1)},
                        {"shared_input", pick({0, 0, 1})},
                        {"thaw_step", between(0, 2) ? 0 : between(0, steps - 2)},
                        {"precision", numbers ? 0 : pick({0, 0, 1})}};
    return {"frozen_reshard",
            "random",
            pick({0, 1}) ? "lagging" : "instant",
            params,
            mode,
            ranks,
            steps,
            0};
  }
};

std::map<std::string, int> hold(World& world, const Trial& trial) {
  const auto scenario = frozen_reshard_scenario();
  EXPECT_EQ(why_unfit(scenario, trial), "");
  return testing::passed(run_trial(scenario, trial, world, {.details = Details::none}), trial);
}

// One rank at a time, without its partners: any rank of any world.
TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  int processes = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (processes > 1) GTEST_SKIP() << "for one process";
  at::globalContext().lazyInitDevice(at::kCUDA);
  Draw draw(3);
  std::map<std::string, int> passed;
  constexpr int kTrials = 110;
  for (int i = 0; i < kTrials && !::testing::Test::HasFailure(); ++i) {
    const int ranks = draw.between(1, 8);
    World world(draw.between(0, ranks - 1), ranks);
    set_race_detection(i % 8 == 0);  // it takes most of the time
    for (const auto& [name, count] : hold(world, draw.trial(ranks, Mode::shapes)))
      passed[name] += count;
  }
  EXPECT_GT(passed["memory"], kTrials * 4 * 12);  // at least four variants, three phases
  EXPECT_GT(passed["trajectory"], kTrials * 4 * 2);
  EXPECT_GT(passed["calls"], kTrials * 4 * 5 - 1);
  EXPECT_GT(passed["order"], kTrials * 4 - 1);
  EXPECT_GT(passed["control"], kTrials * 4 - 1);
}

TEST(ClosedForms, NumbersHoldToo) {
  World world(MPI_COMM_WORLD);
  at::globalContext().lazyInitDevice(at::kCUDA);
  set_race_detection(true);
  Draw draw(20240112);
  std::map<std::string, int> passed;
  for (int i = 0; i < 8 && !::testing::Test::HasFailure(); ++i) {
    for (const auto& [name, count] : hold(world, draw.trial(world.size(), Mode::math)))
      passed[name] += count;
  }
  EXPECT_GT(passed["parity"], 8 * 4 * 3);
  EXPECT_GT(passed["memory"], 8 * 4 * 12);
}

}  // namespace
}  // namespace frozen_reshard
}  // namespace tidemark
