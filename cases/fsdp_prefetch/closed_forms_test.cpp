// The closed forms against the program itself, at parameters drawn at random: every memory verdict
// of every variant.
#include "cases/fsdp_prefetch/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include "harness/testing/trials.h"

namespace tidemark {
Scenario fsdp_prefetch_scenario();

namespace fsdp_prefetch {
namespace {

class Draw : public testing::Draw {
 public:
  using testing::Draw::Draw;
  Trial trial(int ranks) {
    // Widths that no rank count divides, that blocks of the allocator round, and any other.
    const int hidden = between(0, 2) ? pick({3, 48, 100, 257, 384, 777, 1000, 1536, 2048, 3333})
                                     : between(1, 3000);
    const Params params{{"layers", between(1, 12)},
                        {"hidden", hidden},
                        {"batch", pick({8, 16, 24})},
                        {"precision", pick({0, 0, 1, 2})},
                        {"reshard_after_forward", pick({1, 1, 0})}};
    return {"fsdp_prefetch",
            "random",
            between(0, 1) ? "lagging" : "instant",
            params,
            Mode::shapes,
            ranks,
            between(2, 4),
            0};
  }
};

// How many verdicts on memory passed; none may fail.
int hold(World& world, const Trial& trial) {
  const auto record = run_trial(fsdp_prefetch_scenario(), trial, world, {.details = Details::none});
  return testing::passed(record, trial)["memory"];
}

// One rank at a time, without its partners: any rank of any world.
TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  int processes = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (processes > 1) GTEST_SKIP() << "for one process";
  at::globalContext().lazyInitDevice(at::kCUDA);
  Draw draw(8);
  int checked = 0;
  for (int i = 0; i < 120 && !::testing::Test::HasFailure(); ++i) {
    const int ranks = draw.between(1, 8);
    World world(draw.between(0, ranks - 1), ranks);
    checked += hold(world, draw.trial(ranks));
  }
  EXPECT_GT(checked, 120 * 7 * 10);
}

TEST(ClosedForms, HoldToTheByteAmongPartners) {
  World world(MPI_COMM_WORLD);
  if (world.size() == 1) GTEST_SKIP() << "for several processes";
  at::globalContext().lazyInitDevice(at::kCUDA);
  Draw draw(20251);
  int checked = 0;
  for (int i = 0; i < 12 && !::testing::Test::HasFailure(); ++i)
    checked += hold(world, draw.trial(world.size()));
  EXPECT_GT(checked, 12 * 7 * 10);
}

}  // namespace
}  // namespace fsdp_prefetch
}  // namespace tidemark
