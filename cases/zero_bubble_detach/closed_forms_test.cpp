// The closed forms against the program itself, at parameters drawn at random, on any rank of 1 to
// 8: every moment, every variant.
#include "cases/zero_bubble_detach/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <random>

#include "harness/platform.h"
#include "harness/runner.h"

namespace tidemark {
Scenario zero_bubble_detach_scenario();

namespace zero_bubble_detach {
namespace {

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
  Trial trial() {
    const int schedule = between(0, 9) < 3 ? between(0, 2) : between(3, 6);
    const bool interleaves = schedule == 2 || schedule >= 5;
    const int ranks = between(1, 8), stages = schedule == 6 ? 2 : interleaves ? between(1, 3) : 1;
    const int kv = pick({1, 2, 3}), group = pick({1, 1, 2, 4}), head = pick({8, 16, 40, 64});
    const Params params{{"layers", ranks * stages + between(0, 2 * ranks)},
                        {"hidden", kv * group * head},
                        {"ffn", between(1, 700)},
                        {"heads", kv * group},
                        {"kv_heads", kv},
                        {"vocabulary", between(2, 3000)},
                        {"sequence", pick({1, 8, 31, 32, 33, 200})},
                        {"microbatch", between(1, 3)},
                        {"microbatches", between(1, 5)},
                        {"schedule", schedule},
                        {"virtual_stages", stages},
                        {"checkpointing", std::max(0, between(-1, 2))},
                        {"precision", between(0, 1)},
                        {"block", between(0, 3) == 0}};
    return {"zero_bubble_detach",
            "random",
            between(0, 1) ? "lagging" : "instant",
            params,
            Mode::shapes,
            ranks,
            pick({1, 1, 2, 2, 2, 3}),
            0};
  }

 private:
  std::mt19937 random_;
};

TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto scenario = zero_bubble_detach_scenario();
  platform().set_race_detection(false);  // the trials of the sizes look for them
  Draw draw(138119);
  int checked = 0, forms_of_peaks = 0, leaks = 0, trials = 0;
  while (trials < 100 && !testing::Test::HasFailure()) {
    const Trial trial = draw.trial();
    if (!scenario.unfit(trial).empty()) continue;
    ++trials;
    const int rank = draw.between(0, trial.ranks - 1);
    for (const auto& variant : scenario.variants)
      EXPECT_EQ(unbalanced(trial, variant, rank), "") << variant.name;
    World world(rank, trial.ranks);
    std::string what = trial.schedule + " steps=" + std::to_string(trial.steps);
    for (const auto& [name, value] : trial.params) what += " " + name + "=" + std::to_string(value);
    RunOptions options{.details = Details::none};
    // Controls claim what a fixed variant holds, and are caught in the trials of the sizes.
    options.selected = [](const Variant& v) { return v.role != Role::control; };
    const auto record = run_trial(scenario, trial, world, kOwn, options);
    for (const auto& v : record.verdicts) {
      if (!v.name.starts_with("trajectory/") && !v.name.starts_with("memory/") &&
          !v.name.starts_with("order/") && !v.name.starts_with("cost/") &&
          !v.name.starts_with("leak/"))
        continue;
      if (v.name.starts_with("leak/") && v.status == Status::skip) continue;  // too few steps
      leaks += v.name.starts_with("leak/");
      ++checked;
      forms_of_peaks += v.name == "memory/form/requested/pipeline";
      EXPECT_EQ(v.status, Status::pass)
          << v.name << " of " << v.variant << " on rank " << v.rank << " of " << trial.ranks << ", "
          << what << ": " << v.formula << " = " << v.low.value_or(0) << ", measured "
          << v.measured.value_or(0) << " " << v.why;
    }
  }
  EXPECT_GT(checked, 100 * 9 * 5);
  EXPECT_GT(forms_of_peaks, 20 * 12);
  EXPECT_GT(leaks, 30);
  std::printf("%d verdicts, %d of them forms of the pipeline's peak, %d of leaks\n", checked,
              forms_of_peaks, leaks);
}

}  // namespace
}  // namespace zero_bubble_detach
}  // namespace tidemark
