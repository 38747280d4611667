#include "harness/parallel/sharded_parameter.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

namespace tidemark {
namespace {

class Sharded : public testing::Test {
 protected:
  void SetUp() override { at::globalContext().lazyInitDevice(at::kCUDA); }
};

TEST_F(Sharded, TheWholeKeepsItsTensorAndItsVersionWhileMemoryComesAndGoes) {
  ShardedParameter p({"w", {5, 3}}, at::kFloat, at::kFloat, 0, 2);
  p.take().fill_(1);
  const auto whole = p.whole();
  const auto version = whole._version();
  EXPECT_TRUE(whole.requires_grad() && whole.is_leaf());
  const auto allocated =
      c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  p.give_back();
  EXPECT_LT(c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current,
            allocated);
  p.take().fill_(2);
  EXPECT_TRUE(p.whole().is_same(whole));
  EXPECT_EQ(whole._version(), version);
}

TEST_F(Sharded, AFreedWholeUsedByMistakeFailsLoudly) {
  ShardedParameter p({"w", {4, 4}}, at::kFloat, at::kFloat, 0, 2);
  p.take();
  p.give_back();
  const at::NoGradGuard no_grad;
  EXPECT_THROW(at::mm(p.whole(), p.whole()), c10::Error);
}

}  // namespace
}  // namespace tidemark
