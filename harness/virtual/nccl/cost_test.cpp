// The cost formulas at figures worked out by hand.
#include "harness/virtual/nccl/cost.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tidemark::nccl {
namespace {

constexpr device::Links links{100, 10, 1000, 7000, 4};  // GB/s are bytes/ns

std::vector<int> places(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}
// Duration with `count` bytes; rank 0 is the root.
Ns cost(Function function, std::uint64_t count, const std::vector<int>& places) {
  return collective_cost({.function = function, .root = 0, .count = count}, places, links);
}

TEST(Cost, WithinANode) {
  EXPECT_EQ(cost(Function::all_reduce, 400000, places(4)), 6000 + 6 * 1000);
  EXPECT_EQ(cost(Function::all_gather, 100000, places(4)), 3000 + 3 * 1000);
  EXPECT_EQ(cost(Function::reduce_scatter, 100000, places(4)), 3000 + 3 * 1000);
  EXPECT_EQ(cost(Function::broadcast, 400000, places(4)), 4000 + 3 * 1000);
  EXPECT_EQ(cost(Function::all_to_all, 100000, places(4)), 3000 + 1000);
}

TEST(Cost, AcrossNodesTheNetworkCounts) {
  EXPECT_EQ(cost(Function::all_reduce, 800000, places(8)), 140000 + 14 * 7000);
  // 3 peers on the node, 4 across: 30000 and 40000 bytes.
  EXPECT_EQ(cost(Function::all_to_all, 10000, places(8)), 4000 + 7000);
  EXPECT_EQ(cost(Function::gather, 10000, places(8)), 4000 + 7000);
  EXPECT_EQ(cost(Function::broadcast, 1000, {3, 4}),
            100 + 7000);  // neighbours, not of one node
  EXPECT_EQ(cost(Function::broadcast, 1000, {4, 7}), 10 + 1000);
}

TEST(Cost, OneRankAndTheTwoDirections) {
  EXPECT_EQ(cost(Function::all_reduce, 400000, places(1)), 0);
  Traffic traffic;
  EXPECT_EQ(traffic.cost(links), 0);
  traffic.add(0, 0, 1, links);
  EXPECT_EQ(traffic.cost(links), 1000);
  traffic.add(900000, 0, 2, links);
  traffic.add(20000, 0, 5, links);
  EXPECT_EQ(traffic.cost(links), 10000);
  traffic.add(20000, 0, 6, links);
  EXPECT_EQ(traffic.cost(links), 11000);
}

}  // namespace
}  // namespace tidemark::nccl
