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

TEST_F(Sharded, UnevenRowsArePaddedAtTheEnd) {
  const std::int64_t expected[4][2] = {{2, 0}, {2, 6}, {1, 12}, {0, 15}};  // rows, offset
  for (int rank = 0; rank < 4; ++rank) {
    const ShardedParameter p({"w", {5, 3}}, at::kFloat, at::kFloat, rank, 4);
    EXPECT_EQ(p.shard().size(0), expected[rank][0]);
    EXPECT_EQ(p.weights(p.shard()).at(0).offset, expected[rank][1]);
    EXPECT_EQ(p.padded_numel(), 6);
  }
}

TEST_F(Sharded, AShardOfSeveralInOneHasAPartOfEach) {
  const std::int64_t expected[4][4] = {// offset and elements of each
                                       {0, 3, 0, 0},
                                       {3, 3, 0, 0},
                                       {6, 0, 0, 3},
                                       {6, 0, 3, 1}};
  for (int rank = 0; rank < 4; ++rank) {
    const ShardedParameter p({{"a", {2, 3}}, {"b", {4}}}, at::kFloat, at::kFloat, rank, 4);
    EXPECT_EQ(p.shard().numel(), 3) << "with its padding";
    const auto parts = p.weights(p.shard());
    ASSERT_EQ(parts.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(parts[i].name, i == 0 ? "a" : "b");
      EXPECT_EQ(parts[i].offset, expected[rank][2 * i]) << rank;
      EXPECT_EQ(parts[i].values.numel(), expected[rank][2 * i + 1]) << rank;
    }
  }
}

TEST_F(Sharded, ViewsOfTheWholeAreItsWeightsOneAfterTheOther) {
  ShardedParameter p({{"a", {2, 3}}, {"b", {4}}}, at::kFloat, at::kFloat, 0, 4);
  p.take();
  const auto views = p.views();
  EXPECT_EQ(views[0].sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(views[1].sizes(), at::IntArrayRef({4}));
  EXPECT_EQ(views[1].storage_offset(), 6);
  EXPECT_TRUE(views[1].is_alias_of(p.whole()));
  EXPECT_TRUE(views[0].requires_grad() && !views[0].is_leaf());
}

TEST_F(Sharded, TheWholeKeepsItsTensorAndItsVersionWhileMemoryComesAndGoes) {
  ShardedParameter p({"w", {5, 3}}, at::kFloat, at::kFloat, 0, 2);
  p.take().fill_(1);
  const auto whole = p.whole();
  const auto version = whole._version();
  EXPECT_TRUE(whole.requires_grad() && whole.is_leaf());
  const auto held = c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current;
  p.give_back();
  EXPECT_LT(c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].current, held);
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
