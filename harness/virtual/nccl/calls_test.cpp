// A call enqueues and returns, whether the partners have called or not, and what comes of it is
// what comes of calls at the same time.
#include <chrono>
#include <thread>

#include "harness/virtual/device/testing.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

class Calls : public World, public ::testing::WithParamInterface<const char*> {
 protected:
  Calls() : World(1) {}
  void SetUp() override {
    ASSERT_EQ(tidemark_device_set_schedule(GetParam()), 0);
    World::SetUp();
  }
  void TearDown() override {
    World::TearDown();
    tidemark_device_trace(0);
    ASSERT_EQ(tidemark_device_set_schedule("calibrated"), 0);
  }
  ncclResult_t sum(const DeviceBuffer<std::int64_t>& buffer, std::size_t count, cudaStream_t on) {
    return ncclAllReduce(buffer.data(), buffer.data(), count, ncclInt64, ncclSum, comm_, on);
  }
  /// Two sums on one stream, the first behind 1 ms of work, whose end another stream waits for.
  /// Ranks call in turn, each after the one before has, where `in_turn`; else all at once.
  std::vector<Kernel> two_sums(bool in_turn) {
    const DeviceBuffer<std::int64_t> first(std::vector<std::int64_t>{rank_ + 1}),
        second(std::vector<std::int64_t>(5000, rank_));
    cudaStream_t other = nullptr;
    cudaEvent_t end = nullptr;
    EXPECT_EQ(cudaStreamCreate(&other), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), cudaSuccess);
    barrier();
    tidemark_device_reset_clock();
    tidemark_device_trace(1);
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) {
        device::testing::run(stream_, 1'000'000 * (1 + rank_), "nccl_test_work");
        EXPECT_NCCL(sum(first, 1, stream_));
        EXPECT_NCCL(sum(second, 5000, stream_));
        EXPECT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
        EXPECT_EQ(cudaStreamWaitEvent(other, end, 0), cudaSuccess);
      }
      if (in_turn) barrier();  // a call that waits for its partners never gets here
    }
    device::testing::run(other, 1000, "nccl_test_after");
    EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    EXPECT_EQ(first.read(0, 1).front(), size_ * (size_ + 1) / 2);
    EXPECT_EQ(second.read(0, 5000), std::vector<std::int64_t>(5000, size_ * (size_ - 1) / 2));
    EXPECT_TRUE(first.intact() && second.intact());
    cudaEventDestroy(end);
    cudaStreamDestroy(other);
    return traced_kernels();
  }
};

TEST_P(Calls, ReturnBeforeThePartnersCallAndTakeTheSameTimes) {
  const auto at_once = two_sums(false);
  EXPECT_EQ(at_once.size(), size_ > 1 ? 4U : 2U);
  EXPECT_EQ(at_once, two_sums(true));
}

TEST_P(Calls, AQueryIsNotReadyWhileAPartnerIsMissing) {
  if (size_ == 1) GTEST_SKIP() << "a single rank has no partner";
  const DeviceBuffer<std::int64_t> one(std::vector<std::int64_t>{1});
  const auto late = size_ - 1;
  cudaEvent_t end = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), cudaSuccess);
  if (rank_ == late) barrier();
  EXPECT_NCCL(sum(one, 1, stream_));
  EXPECT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  if (rank_ != late) {
    EXPECT_EQ(cudaEventQuery(end), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
    barrier();
  }
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  EXPECT_EQ(one.read(0, 1).front(), size_);
  cudaEventDestroy(end);
}

TEST_P(Calls, AreServedWhileTheHostDoesOtherThings) {
  const DeviceBuffer<std::int64_t> many(std::vector<std::int64_t>(100'000, 1));  // in two halves
  EXPECT_NCCL(sum(many, 100'000, stream_));
  if (rank_ != 0) {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  barrier();  // rank 0 comes here at once, and the others need its part
  EXPECT_EQ(many.read(0, 100'000), std::vector<std::int64_t>(100'000, size_));
}

INSTANTIATE_TEST_SUITE_P(, Calls, device::testing::kSchedules, device::testing::schedule_name);

}  // namespace
}  // namespace tidemark::nccl::testing
