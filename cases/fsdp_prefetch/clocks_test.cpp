// Random clocks: durations drawn from a seed, a hundred seeds here, more with
// TIDEMARK_TEST_SEEDS. Whatever the clock is, the numbers are the same, nothing races, and memory
// lies between the two schedules that need no clock.
//
// Between, exactly: requested bytes always, since the host makes the same calls, and a freed block
// that waits for a stream comes back no later under instant and no earlier under lagging. Allocated
// and active bytes where every block that comes and goes is of the allocator's small pool (requests
// up to 1 MiB), which splits whatever is left over, as here; a block of the large pool keeps a rest
// of up to 1 MiB, which depends on what happened to be free, so there the bracket is wider by 1 MiB
// a block in use. Reserved bytes have no bracket in general: best fit puts the same requests
// elsewhere when other blocks are free, and more room can end in worse packing. What always holds
// is that they are no less than the active peak; here, where a few segments of 2 MiB hold all small
// blocks, they lie between as well.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "harness/run/bracket.h"
#include "harness/run/variant.h"
#include "harness/testing/ranks.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario fsdp_prefetch_scenario();

namespace fsdp_prefetch {
namespace {

Trial trial_of(const Scenario& scenario, const World& world, const std::string& schedule, Mode mode,
               std::uint64_t seed) {
  return {scenario.name, "smoke",      schedule, scenario.sizes.front().params,
          mode,          world.size(), 2,        seed};
}

TrialRecord run(World& world, const std::string& schedule, Mode mode, std::uint64_t seed) {
  const auto scenario = fsdp_prefetch_scenario();
  return run_trial(scenario, trial_of(scenario, world, schedule, mode, seed), world,
                   {.details = Details::none});
}

void expect_all_pass(const TrialRecord& record, std::uint64_t seed) {
  int races = 0;
  for (const auto& verdict : record.verdicts) {
    races += verdict.name == "race/none";
    EXPECT_NE(Status::fail, verdict.status)
        << verdict.name << " of " << verdict.variant << ", seed " << seed << ": " << verdict.why;
  }
  EXPECT_EQ(7, races);
}

Bytes peak(const TrialRecord& record, const std::string& variant, Statistic statistic) {
  for (const auto& v : record.variants)
    if (v.name == variant) return v.ranks.at(0).peak(statistic);
  return -1;
}

TEST(RandomSchedule, LiesBetweenInstantAndLaggingAndRacesNowhere) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  World world(1, 4);
  const auto least = run(world, "instant", Mode::shapes, 0),
             most = run(world, "lagging", Mode::shapes, 0);
  std::set<Bytes> active;
  int apart[4] = {};
  for (int seed = 0; seed < testing::seeds(100) && !::testing::Test::HasFailure(); ++seed) {
    if (!testing::drawn(seed)) continue;
    auto record = run(world, "random", Mode::shapes, static_cast<std::uint64_t>(seed));
    record.seed = 0;  // in shapes it is the clock's alone
    std::vector<TrialRecord> trials{least, record, most};
    judge_brackets(trials);
    EXPECT_GT(trials[1].verdicts.size(), record.verdicts.size());
    expect_all_pass(trials[1], static_cast<std::uint64_t>(seed));
    for (const auto& variant : record.variants) {
      if (variant.role == Role::control) continue;
      for (const Statistic statistic : kStatistics) {
        const Bytes low = peak(least, variant.name, statistic),
                    high = peak(most, variant.name, statistic),
                    actual = peak(record, variant.name, statistic);
        apart[static_cast<int>(statistic)] += actual < low || actual > high;
      }
      EXPECT_GE(peak(record, variant.name, Statistic::reserved),
                peak(record, variant.name, Statistic::active));
      if (variant.name == "record_stream")
        active.insert(peak(record, variant.name, Statistic::active));
    }
  }
  EXPECT_EQ(0, apart[0]) << "allocated";
  EXPECT_EQ(0, apart[1]) << "active";
  EXPECT_EQ(0, apart[2]) << "reserved";
  EXPECT_EQ(0, apart[3]) << "requested";
  EXPECT_GT(active.size(), testing::whole() ? 3U : 1U) << "the draws must differ";
}

TEST(RandomSchedule, NumbersAreTheSame) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  World& world = testing::world();
  for (const std::uint64_t seed : {0, 1, 2})
    expect_all_pass(run(world, "random", Mode::math, seed), seed);
}

TEST(RandomSchedule, ASeedIsOneClock) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  World world(1, 4);
  const auto scenario = fsdp_prefetch_scenario();
  const auto times = [&](std::uint64_t seed) {
    const Trial trial = trial_of(scenario, world, "random", Mode::shapes, seed);
    return run_variant(scenario, trial, scenario.variants.front(), world).step_time_ns;
  };
  EXPECT_EQ(times(5), times(5));
  EXPECT_NE(times(5), times(6));
}

}  // namespace
}  // namespace fsdp_prefetch
}  // namespace tidemark
