// The virtual clock of collectives: every rank sees them end at the latest start plus the formula's
// cost, in every run.
#include <algorithm>
#include <cmath>
#include <map>

#include "harness/virtual/device/testing.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

using device::Ns;

class Clock : public World {
 protected:
  Clock() : World(0) {}
  void SetUp() override {
    ASSERT_EQ(tidemark_device_set_schedule("calibrated"), 0);
    World::SetUp();
  }
  void TearDown() override {
    World::TearDown();
    tidemark_device_trace(0);
  }
  void begin() {
    tidemark_device_reset_clock();
    tidemark_device_trace(1);
  }
  /// Makes this rank's stream busy, the longer the lower the rank.
  void be_busy() { device::testing::run(stream_, 1000000 * (size_ - rank_), "nccl_test_work"); }

  static Ns latest(Ns mine) {
    Ns result = mine;
    for (const auto& one : tidemark::testing::world().exchange(std::to_string(mine)))
      result = std::max<Ns>(result, std::stoll(one));
    return result;
  }
  /// Duration of a share of `bytes` on the slowest link of the world, with `hops` latencies.
  Ns ring(double bytes, Ns hops) const {
    bool one_node = size_ <= links_.ranks_per_node;
    double rate = one_node ? links_.nvlink_gbps : links_.network_gbps;
    return std::llround(bytes / rate) +
           hops * (one_node ? links_.nvlink_latency : links_.network_latency);
  }

  device::Links links_ = device::links();
  void* nowhere_ = reinterpret_cast<void*>(std::uintptr_t{0x1000});
};

// holds: harness/virtual/README.md, Time
TEST_F(Clock, CollectivesEndAtTheLatestStartPlusTheirCost) {
  if (size_ == 1) GTEST_SKIP() << "a single rank has no links";
  constexpr std::size_t count = 3000001;
  const double bytes = 4.0 * count, n = size_;
  const auto hops = static_cast<Ns>(size_ - 1);
  const std::map<Op, Ns> costs{{Op::all_reduce, ring(2 * (n - 1) / n * bytes, 2 * hops)},
                               {Op::all_gather, ring((n - 1) * bytes, hops)},
                               {Op::reduce_scatter, ring((n - 1) * bytes, hops)},
                               {Op::broadcast, ring(bytes, hops)},
                               {Op::reduce, ring(bytes, hops)},
                               {Op::all_to_all, ring((n - 1) * bytes, 1)},
                               {Op::gather, ring((n - 1) * bytes, 1)},
                               {Op::scatter, ring((n - 1) * bytes, 1)}};
  for (const auto& [op, cost] : costs) {
    SCOPED_TRACE(name_of(op));
    begin();
    be_busy();
    EXPECT_NCCL(call(op, {nowhere_, nowhere_, count, comm_, stream_}));
    auto kernels = traced_kernels();
    ASSERT_EQ(kernels.size(), 2U);
    EXPECT_EQ(kernels[1].start, latest(kernels[0].end));
    EXPECT_EQ(kernels[1].end - kernels[1].start, cost);
  }
}

TEST_F(Clock, NothingTakesNothing) {
  begin();
  EXPECT_NCCL(ncclAllReduce(nowhere_, nowhere_, 0, ncclFloat32, ncclSum, comm_, stream_));
  EXPECT_TRUE(traced_kernels().empty());
  EXPECT_EQ(tidemark_device_now(), 0);
}

TEST_F(Clock, ASendDoesNotWaitAReceiveWaitsForItsSender) {
  if (size_ < 2) GTEST_SKIP() << "no partner to send to";
  constexpr std::size_t count = 1000003;
  Ns cost = ring(count, 1);
  begin();
  be_busy();  // rank 0, the sender, the longest
  if (rank_ == 0) {
    EXPECT_NCCL(ncclSend(nowhere_, count, ncclInt8, 1, comm_, stream_));
  }
  if (rank_ == 1) {
    EXPECT_NCCL(ncclRecv(nowhere_, count, ncclInt8, 0, comm_, stream_));
  }
  auto kernels = traced_kernels();
  Ns senders = latest(kernels[0].end);
  if (rank_ > 1) return;
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[1].start, senders);
  EXPECT_EQ(kernels[1].end, senders + cost);
}

TEST_F(Clock, AGroupIsOneKernelOfTheSummedCosts) {
  if (size_ < 2) GTEST_SKIP() << "a single rank has no links";
  begin();
  be_busy();
  int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i)
    EXPECT_NCCL(ncclAllGather(nowhere_, nowhere_, 5000, ncclInt8, comm_, stream_));
  EXPECT_NCCL(ncclRecv(nowhere_, 70000, ncclInt8, before, comm_, stream_));
  EXPECT_NCCL(ncclSend(nowhere_, 70000, ncclInt8, next, comm_, stream_));
  EXPECT_NCCL(ncclGroupEnd());
  auto kernels = traced_kernels();
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[1].start, latest(kernels[0].end));
  EXPECT_EQ(kernels[1].end - kernels[1].start,
            2 * ring(5000.0 * (size_ - 1), size_ - 1) + ring(70000, 1));
}

TEST_F(Clock, TwoRunsAreEqual) {
  std::vector<Kernel> runs[2];
  for (auto& run : runs) {
    begin();
    for (std::size_t i = 1; i < 30; ++i) {
      if (i % 3 == static_cast<std::size_t>(rank_) % 3) be_busy();
      EXPECT_NCCL(
          ncclAllReduce(nowhere_, nowhere_, 1000 * i, ncclFloat32, ncclSum, comm_, stream_));
      EXPECT_NCCL(ncclAlltoAll(nowhere_, nowhere_, 100 * i, ncclFloat32, comm_, nullptr));
    }
    run = traced_kernels();
  }
  EXPECT_GE(runs[0].size(), size_ > 1 ? 58U : 9U);
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace tidemark::nccl::testing
