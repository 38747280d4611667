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

TEST(ClosedForms, HoldToTheByteAtRandomParameters) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  World world(MPI_COMM_WORLD);
  const auto scenario = fsdp_prefetch_scenario();
  std::mt19937 random(20251);
  const auto pick = [&](std::initializer_list<int> from) {
    return *(from.begin() + static_cast<std::ptrdiff_t>(random() % from.size()));
  };
  int checked = 0;
  for (int i = 0; i < 44 && !testing::Test::HasFailure(); ++i) {
    const auto layers = static_cast<std::int64_t>(2 + random() % 11);
    const Params params{{"layers", layers},
                        {"hidden", pick({3, 48, 100, 257, 384, 777, 1000, 1536, 2048, 3333})},
                        {"batch", pick({8, 16, 24})},
                        {"precision", pick({0, 0, 1, 2})},
                        {"reshard_after_forward", pick({1, 1, 0})}};
    const Trial trial{"fsdp_prefetch",
                      "random",
                      pick({0, 1}) ? "lagging" : "instant",
                      params,
                      Mode::shapes,
                      world.size(),
                      pick({1, 2, 3, 4}),
                      0};
    const auto record = run_trial(scenario, trial, world, kOwn);
    for (const auto& v : record.verdicts) {
      if (!v.name.starts_with("memory/")) continue;
      ++checked;
      EXPECT_EQ(v.status, Status::pass)
          << v.name << " of " << v.variant << " on rank " << v.rank << ", " << trial.schedule
          << ", layers " << layers << " hidden " << params.at("hidden") << " batch "
          << params.at("batch") << " precision " << params.at("precision") << " reshard "
          << params.at("reshard_after_forward") << " steps " << trial.steps << ": " << v.formula
          << " = " << v.low.value_or(0) << ", measured " << v.measured.value_or(0);
    }
  }
  EXPECT_GT(checked, 44 * 7 * 10);
}

}  // namespace
}  // namespace fsdp_prefetch
}  // namespace tidemark
