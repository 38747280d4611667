// The control that goes through failed backwards does the same calls in every run, wherever its
// nodes, hooks and tensors lie on the host's heap.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "harness/judge/counts.h"
#include "harness/testing/trials.h"

namespace tidemark {
Scenario frozen_reshard_scenario();

namespace frozen_reshard {
namespace {

/// Blocks of the sizes that autograd's nodes have, half of them freed again in any order: what is
/// allocated next comes to lie elsewhere than without them.
class Litter {
 public:
  explicit Litter(unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 400; ++i)
      kept_.push_back(std::make_unique<char[]>(static_cast<std::size_t>(random() % 1000 + 1)));
    for (auto& block : kept_)
      if (random() % 2 == 0) block.reset();
  }

 private:
  std::vector<std::unique_ptr<char[]>> kept_;
};

/// By step.
std::vector<std::vector<Call>> calls(const RankRecord& rank) {
  std::vector<std::vector<Call>> all;
  for (const auto& step : rank.steps) all.push_back(step.calls);
  return all;
}

TEST(WillExecuteShared, DoesTheSameWhereverItsNodesLie) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  World world(0, 1);
  const auto scenario = frozen_reshard_scenario();
  const Trial trial = testing::first_size(scenario, /*ranks=*/1, /*steps=*/6);
  const auto run = [&] {
    const auto record = run_trial(scenario, trial, world, testing::only("will_execute_shared"));
    return calls(record.variants.at(0).ranks.at(0));
  };
  const auto first = run();
  EXPECT_GT(times(first.back(), "freed parameter used"), 0);
  EXPECT_GT(times(first.back(), "hook"), 0);
  int differ = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const Litter litter(seed);
    differ += run() != first;
  }
  EXPECT_EQ(differ, 0) << "of 100 runs";
}

}  // namespace
}  // namespace frozen_reshard
}  // namespace tidemark
