// Trials of one rank without its partners. Peaks of a stage by the habits of PyTorch's releases,
// derived by hand: the middle one of three stages, an MLP block, one microbatch, a split backward.
// Controls are caught where they show, and said not to be seen where they cannot.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cases/device_facts.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario zero_bubble_detach_scenario();

namespace zero_bubble_detach {
namespace {

constexpr Bytes kTokens = 1024, kHidden = 64, kFfn = 256, kFloat = 4;
// An activation, a wide one, the gradient of a weight.
constexpr Bytes x = kTokens * kHidden * kFloat, f = kTokens * kFfn * kFloat,
                w = kHidden * kFfn * kFloat;

/// Requested bytes at the peak of the second step, above two weights, two receive buffers and the
/// workspaces of two threads.
Bytes peak(std::int64_t habits) {
  const auto scenario = zero_bubble_detach_scenario();
  const Trial trial = testing::first_size(scenario, /*ranks=*/3, /*steps=*/2,
                                          {{"layers", 3},
                                           {"hidden", kHidden},
                                           {"ffn", kFfn},
                                           {"sequence", kTokens},
                                           {"microbatches", 1},
                                           {"schedule", 3},  // ZB-H1
                                           {"virtual_stages", 1},
                                           {"block", 1},
                                           {"habits", habits}});
  World world(1, trial.ranks);
  const auto record = run_trial(scenario, trial, world, testing::only("drop_grads_hooks"));
  testing::passed(record, trial);
  const auto& phases = record.variants.at(0).ranks.front().steps.back().phases;
  const auto& pipeline = *std::ranges::find(phases, "pipeline", &Phase::name);
  return pipeline[Statistic::requested].peak - 2 * w - 2 * x -
         2 * current_device_facts().workspace_bytes;
}

// The forward keeps the block's output, gelu's input and its output: x + 2 f.
TEST(Habits, PeakIsTheInputOrTheWeightPass) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  // None: in the input pass gelu's input and output have a gradient each. The weight pass begins
  // with x + 2 f and the gradient of gelu's input, and makes a weight's gradient.
  EXPECT_EQ(peak(0), x + 4 * f);
  // torch_2.5: likewise, with the input's gradient of the step before.
  EXPECT_EQ(peak(1), 2 * x + 4 * f);
  // torch_2.6: that goes when the step ends. The weight pass has the gradient of the stage's input
  // besides, and is still lower.
  EXPECT_EQ(peak(2), x + 4 * f);
  // torch_2.11: it also copies the gradient of gelu's input before it makes the weight's.
  EXPECT_EQ(peak(3), 2 * x + 4 * f + w);
}

/// The verdicts on these controls of ZB-H1 on one rank: a part of the reason why they are not to be
/// seen there, or empty if they are caught.
void expect_controls(int rank, int ranks, std::int64_t habits,
                     const std::map<std::string, std::string>& unseen) {
  const auto scenario = zero_bubble_detach_scenario();
  const Trial trial = testing::first_size(
      scenario, ranks, /*steps=*/2, {{"virtual_stages", 1}, {"schedule", 3}, {"habits", habits}});
  World world(rank, trial.ranks);
  std::size_t control_count = 0;
  for (const auto& v : run_trial(scenario, trial, world, {.details = Details::none}).verdicts) {
    const auto why = unseen.find(v.variant);
    if (!v.name.starts_with("control/") || why == unseen.end()) continue;
    EXPECT_EQ(v.status, why->second.empty() ? Status::pass : Status::skip) << v.variant;
    EXPECT_NE(v.why.find(why->second), std::string::npos) << v.variant << ": " << v.why;
    ++control_count;
  }
  EXPECT_EQ(control_count, unseen.size());
}

// The first stage's backward is never split. With the habits of torch_2.11 an output that keeps its
// graph goes with the last pass, but for the last stage's.
TEST(Unseen, ControlsShowWhereTheyKeepAGraph) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const std::string first = "not to be seen on rank 0", middle = "does not hold the last stage";
  expect_controls(0, 2, 0,
                  {{"detach_view", first}, {"detach_copy_kept", first}, {"hook_cycle", first}});
  expect_controls(1, 2, 0, {{"detach_view", ""}, {"detach_copy_kept", ""}, {"hook_cycle", ""}});
  expect_controls(1, 3, 3, {{"detach_view", middle}, {"detach_copy_kept", ""}, {"hook_cycle", ""}});
  expect_controls(2, 3, 3, {{"detach_view", ""}});
}

}  // namespace
}  // namespace zero_bubble_detach
}  // namespace tidemark
