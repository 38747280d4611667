// The closed forms against the program itself, at parameters drawn at random: every memory verdict
// of every variant.
#include "cases/fsdp_prefetch/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <random>

#include "harness/runner.h"

namespace tidemark {
Scenario fsdp_prefetch_scenario();

namespace fsdp_prefetch {
namespace {

// Every rank judges itself here, so nothing has to travel: what comes from elsewhere is replaced by
// one's own.
TrialRecord mine;
const Codec kOwn{[](const TrialRecord& record) { return mine = record, std::string(); },
                 [](const std::string&) { return mine; }};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<unsigned>(high - low + 1));
  }
  int pick(std::initializer_list<int> from) {
    return *(from.begin() + between(0, static_cast<int>(from.size()) - 1));
  }
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
            between(1, 4),
            0};
  }

 private:
  std::mt19937 random_;
};

// How many memory verdicts there were; each must have passed.
int hold(World& world, const Trial& trial) {
  const auto scenario = fsdp_prefetch_scenario();
  const auto record = run_trial(scenario, trial, world, kOwn, {.details = Details::none});
  std::string what = trial.schedule + " steps=" + std::to_string(trial.steps);
  for (const auto& [name, value] : trial.params) what += " " + name + "=" + std::to_string(value);
  int checked = 0;
  for (const auto& v : record.verdicts) {
    if (!v.name.starts_with("memory/")) continue;
    ++checked;
    EXPECT_EQ(v.status, Status::pass)
        << v.name << " of " << v.variant << " on rank " << v.rank << " of " << trial.ranks << ", "
        << what << ": " << v.formula << " = " << v.low.value_or(0) << ", measured "
        << v.measured.value_or(0);
  }
  return checked;
}

// One rank at a time, without its partners: any rank of any world.
TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  int processes = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  if (processes > 1) GTEST_SKIP() << "for one process";
  at::globalContext().lazyInitDevice(at::kCUDA);
  Draw draw(8);
  int checked = 0;
  for (int i = 0; i < 120 && !testing::Test::HasFailure(); ++i) {
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
  for (int i = 0; i < 12 && !testing::Test::HasFailure(); ++i)
    checked += hold(world, draw.trial(world.size()));
  EXPECT_GT(checked, 12 * 7 * 10);
}

}  // namespace
}  // namespace fsdp_prefetch
}  // namespace tidemark
