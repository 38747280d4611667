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

std::map<std::string, Verdict> controls_on(int rank) {
  const auto scenario = zero_bubble_detach_scenario();
  Trial trial{"zero_bubble_detach", "smoke",     "instant",   scenario.sizes.front().params,
              Mode::shapes,         /*ranks=*/2, /*steps=*/2, 0};
  trial.params["virtual_stages"] = 1;
  trial.params["schedule"] = 3;  // ZB-H1
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

}  // namespace
}  // namespace zero_bubble_detach
}  // namespace tidemark
