// Controls on one rank without its partners: caught where they show, and said not to be seen where
// they cannot.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "harness/testing/trials.h"

namespace tidemark {
Scenario zero_bubble_detach_scenario();

namespace zero_bubble_detach {
namespace {

std::map<std::string, Verdict> controls_on(int rank, int ranks = 2, std::int64_t habits = 0) {
  const auto scenario = zero_bubble_detach_scenario();
  const Trial trial =
      testing::first_size(scenario, ranks, /*steps=*/2,
                          {{"virtual_stages", 1}, {"schedule", 3}, {"habits", habits}});  // ZB-H1
  World world(rank, trial.ranks);
  const auto record = run_trial(scenario, trial, world, {.details = Details::none});
  std::map<std::string, Verdict> found;
  for (const auto& verdict : record.verdicts)
    if (verdict.name.starts_with("control/")) found[verdict.variant] = verdict;
  return found;
}

TEST(Unseen, ControlsOfSplitBackwardsShowOnTheSecondStageAlone) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto first = controls_on(0), second = controls_on(1);
  for (const char* control : {"detach_view", "detach_copy_kept", "hook_cycle"}) {
    EXPECT_EQ(first.at(control).status, Status::skip) << control;
    EXPECT_EQ(first.at(control).why.find("not to be seen on rank 0"), 0u) << first.at(control).why;
    EXPECT_EQ(second.at(control).status, Status::pass) << control << second.at(control).why;
  }
}

// With the habits of torch_2.11 an output that keeps its graph goes with the last pass, but for the
// last stage's.
TEST(Unseen, ViewsThatGoShowOnTheLastStageAlone) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const auto middle = controls_on(1, 3, 3), last = controls_on(2, 3, 3);
  const auto& view = middle.at("detach_view");
  EXPECT_EQ(view.status, Status::skip);
  EXPECT_NE(view.why.find("does not hold the last stage"), std::string::npos) << view.why;
  for (const char* control : {"detach_copy_kept", "hook_cycle"})
    EXPECT_EQ(middle.at(control).status, Status::pass) << control << middle.at(control).why;
  EXPECT_EQ(last.at("detach_view").status, Status::pass) << last.at("detach_view").why;
}

}  // namespace
}  // namespace zero_bubble_detach
}  // namespace tidemark
