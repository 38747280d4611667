// The closed forms against the program itself, at parameters drawn at random, on any rank of 1 to
// 8: every moment, every variant.
#include "cases/zero_bubble_detach/closed_forms.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>

#include "harness/device/platform.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario zero_bubble_detach_scenario();

namespace zero_bubble_detach {
namespace {

class Draw : public testing::Draw {
 public:
  using testing::Draw::Draw;
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
                        {"sequence", pick({1, 8, 31, 32, 33, 200, 1600, 3100})},
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
            pick({2, 2, 2, 3}),
            0};
  }
};

TEST(ClosedForms, HoldToTheByteOnAnyRankOfEight) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto scenario = zero_bubble_detach_scenario();
  set_race_detection(false);  // the trials of the sizes look for them
  Draw draw(138119);
  std::map<std::string, int> passed;
  std::ptrdiff_t forms_of_peaks = 0;
  int trials = 0;
  while (trials < 100 && !::testing::Test::HasFailure()) {
    const Trial trial = draw.trial();
    if (!why_unfit(scenario, trial).empty()) continue;
    ++trials;
    const int rank = draw.between(0, trial.ranks - 1);
    for (const auto& variant : scenario.variants)
      EXPECT_EQ(unbalanced(trial, variant, rank), "") << variant.name;
    World world(rank, trial.ranks);
    RunOptions options{.details = Details::none};
    // Controls claim what a fixed variant holds, and are caught in the trials of the sizes.
    options.selected = [](const Variant& v) { return v.role != Role::control; };
    const auto record = run_trial(scenario, trial, world, options);
    for (const auto& [name, count] : testing::passed(record, trial)) passed[name] += count;
    forms_of_peaks += testing::passed_of(record, "memory/form/requested/pipeline");
  }
  EXPECT_GT(passed["memory"] + passed["trajectory"], 100 * 9 * 5);
  EXPECT_GT(forms_of_peaks, 50 * 12);
  EXPECT_GT(passed["leak"], 30);
  std::printf("%d verdicts on memory, %d on residency, %d on leaks\n", passed["memory"],
              passed["trajectory"], passed["leak"]);
}

}  // namespace
}  // namespace zero_bubble_detach
}  // namespace tidemark
