// The closed forms against the program itself: every memory verdict of every variant, at parameters
// drawn at random.
#include "cases/tp_buffer_reuse/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <random>

#include "harness/platform.h"
#include "harness/runner.h"

namespace tidemark {
Scenario tp_buffer_reuse_scenario();

namespace tp_buffer_reuse {
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
    const int bf16 = between(0, 1);
    const int kv_heads = ranks * between(1, 3), heads = kv_heads * pick({1, 1, 2, 4});
    const int head = 8 * (bf16 ? between(1, 20) : between(1, 8));
    const int sequence = ranks * between(1, between(0, 1) ? 30 : 300) + (ranks == 1 ? 1 : 0);
    const Params params{{"layers", between(1, 3)},
                        {"hidden", heads * head},
                        {"ffn", ranks * between(1, between(0, 1) ? 40 : 900)},
                        {"heads", heads},
                        {"kv_heads", kv_heads},
                        {"sequence", sequence},
                        {"microbatch", between(1, 3)},
                        {"in_flight", between(1, 3)},
                        {"precision", bf16}};
    return {"tp_buffer_reuse",
            "random",
            between(0, 1) ? "lagging" : "instant",
            params,
            Mode::shapes,
            ranks,
            between(1, 3),
            0};
  }

 private:
  std::mt19937 random_;
};

std::string described(const Trial& trial) {
  std::string what = trial.schedule + " ranks=" + std::to_string(trial.ranks) +
                     " steps=" + std::to_string(trial.steps);
  for (const auto& [name, value] : trial.params) what += " " + name + "=" + std::to_string(value);
  return what;
}

// How many verdicts there were of memory, saving, rest, cost and controls; each must have passed.
int hold(World& world, const Trial& trial) {
  const auto scenario = tp_buffer_reuse_scenario();
  EXPECT_EQ(scenario.unfit(trial), "") << described(trial);
  int checked = 0;
  for (const auto& v :
       run_trial(scenario, trial, world, kOwn, {.details = Details::none}).verdicts) {
    if (v.status == Status::skip) continue;
    if (trial.steps == 1 && v.name.starts_with("rest/")) continue;  // the first step makes the rest
    ++checked;
    EXPECT_EQ(v.status, Status::pass)
        << v.name << " of " << v.variant << " on rank " << v.rank << ", " << described(trial)
        << ": " << v.formula << " = " << v.low.value_or(0) << ", measured "
        << v.measured.value_or(0) << " " << v.why;
  }
  return checked;
}

// One rank at a time, without its partners: any rank of any world.
TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  platform().set_race_detection(false);  // the trials of the sizes look for them
  Draw draw(2);
  int checked = 0;
  for (int i = 0; i < 100 && !testing::Test::HasFailure(); ++i) {
    const int ranks = draw.pick({1, 2, 3, 4, 5, 8});
    World world(draw.between(0, ranks - 1), ranks);
    checked += hold(world, draw.trial(ranks));
  }
  EXPECT_GT(checked, 100 * 80);
}

}  // namespace
}  // namespace tp_buffer_reuse
}  // namespace tidemark
