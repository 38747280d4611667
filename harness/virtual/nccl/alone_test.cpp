// A process that is declared alone: one rank of n stands for all (not in math); ranks that share
// the process are real.
#include <gmock/gmock.h>

#include <deque>
#include <numeric>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

using ::testing::HasSubstr;

const bool set = setenv("TIDEMARK_DEVICES", "4", 1) == 0 &&  // before the device is first asked
                 setenv("TIDEMARK_NCCL_ALONE", "1", 1) == 0;

ncclComm_t make(int size, int rank) { return join(new_id(), size, rank); }

struct Alone : ::testing::Test {
  void TearDown() override {
    tidemark_device_trace(0);
    tidemark_device_set_data(0);
  }
  void* nowhere = reinterpret_cast<void*>(std::uintptr_t{0x1000});
};

TEST_F(Alone, OneRankOfThousandsTakesItsTime) {
  tidemark_device_set_schedule("calibrated");
  ncclComm_t comm = make(4096, 17);
  tidemark_device_trace(1);
  EXPECT_NCCL(ncclAllReduce(nowhere, nowhere, 1 << 20, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_NCCL(ncclRecv(nowhere, 1 << 20, ncclFloat32, 16, comm, nullptr));
  EXPECT_NCCL(ncclSend(nowhere, 1 << 20, ncclFloat32, 18, comm, nullptr));
  auto kernels = traced_kernels();
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0].name, "ncclDevKernel_AllReduce_Sum_f32_RING");
  for (const Kernel& kernel : kernels) EXPECT_GT(kernel.end, kernel.start);
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Alone, NumbersWouldBeWrong) {
  ncclComm_t comm = make(8, 0);
  const DeviceBuffer<float> buffer(16);
  tidemark_device_set_data(1);
  EXPECT_EQ(ncclAllReduce(buffer.data(), buffer.data(), 4, ncclFloat32, ncclSum, comm, nullptr),
            ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr),
              HasSubstr("one of 8 ranks without partners and cannot move data"));
  tidemark_device_set_data(0);
  EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 4, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Alone, KnownValuesStandForThoseOfThePartners) {
  constexpr int kRanks = 1000, kRank = 3;
  ncclComm_t comm = make(kRanks, kRank);
  tidemark_device_set_data(2);
  std::vector<int> values(kRanks);
  std::iota(values.begin(), values.end(), 10);
  const DeviceBuffer send(values);
  const DeviceBuffer<int> recv(kRanks);
  const auto read = [&](std::size_t count) { return recv.read(count - 1, 1)[0]; };
  for (const auto& [how, expected] :
       {std::pair{ncclSum, 11 * kRanks}, {ncclAvg, 11}, {ncclMax, 11}}) {
    EXPECT_NCCL(ncclAllReduce(send.data(), recv.data(), 2, ncclInt32, how, comm, nullptr));
    EXPECT_EQ(read(2), expected);
  }
  EXPECT_NCCL(ncclReduceScatter(send.data(), recv.data(), 1, ncclInt32, ncclSum, comm, nullptr));
  EXPECT_EQ(read(1), (10 + kRank) * kRanks);
  EXPECT_NCCL(ncclAllGather(send.data(), recv.data(), 1, ncclInt32, comm, nullptr));
  EXPECT_EQ(recv.read(), std::vector<int>(kRanks, 10));
  EXPECT_NCCL(ncclBcast(send.data(), 1, ncclInt32, 7, comm, nullptr));  // keeps what it has
  EXPECT_TRUE(tidemark_device_is_known(send.data(), 4));
  EXPECT_NCCL(ncclRecv(recv.data(), 1, ncclInt32, 7, comm, nullptr));
  EXPECT_FALSE(tidemark_device_is_known(recv.data(), 4));
  EXPECT_TRUE(tidemark_device_is_known(recv.data() + 1, 4));
  tidemark_device_mark_known(send.data(), 4, 0);
  EXPECT_NCCL(ncclAllGather(send.data(), recv.data(), 1, ncclInt32, comm, nullptr));
  EXPECT_FALSE(tidemark_device_is_known(recv.data() + kRanks - 1, 4));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Alone, TheOnlyRankHasNumbers) {
  tidemark_device_set_data(1);
  ncclComm_t comm = make(1, 0);
  const DeviceBuffer from(std::vector<float>{6});
  const DeviceBuffer<float> to(1);
  EXPECT_NCCL(ncclAllReduce(from.data(), to.data(), 1, ncclFloat32, ncclAvg, comm, nullptr));
  EXPECT_EQ(to.read(), from.read());
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Alone, SplitNeedsPartnersAndShrinkDoesNot) {
  ncclComm_t comm = make(8, 5), child = nullptr;
  EXPECT_EQ(ncclCommSplit(comm, 1, 5, &child, nullptr), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("no partners that could say their colors"));
  EXPECT_NCCL(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr));
  EXPECT_EQ(child, nullptr);
  int excluded[] = {0, 7};
  ASSERT_NCCL(ncclCommShrink(comm, excluded, 2, &child, nullptr, NCCL_SHRINK_DEFAULT));
  int size = 0, rank = 0;
  EXPECT_NCCL(ncclCommCount(child, &size));
  EXPECT_NCCL(ncclCommUserRank(child, &rank));
  EXPECT_EQ(size, 6);
  EXPECT_EQ(rank, 4);
  EXPECT_NCCL(ncclCommDestroy(child));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Alone, AllDevicesOfAProcessAreRealRanks) {
  tidemark_device_set_data(1);
  ncclComm_t comms[4] = {};
  ASSERT_NCCL(ncclCommInitAll(comms, 4, nullptr));
  std::deque<DeviceBuffer<int>> at;
  for (int d = 0; d < 4; ++d) {
    ASSERT_EQ(cudaSetDevice(d), cudaSuccess);
    at.emplace_back(std::vector{1 << d});
    int device = -1;
    EXPECT_NCCL(ncclCommCuDevice(comms[d], &device));
    EXPECT_EQ(device, d);
  }
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_NCCL(ncclGroupStart());
  for (std::size_t d = 0; d < 4; ++d)
    EXPECT_NCCL(
        ncclAllReduce(at[d].data(), at[d].data(), 1, ncclInt32, ncclSum, comms[d], nullptr));
  ASSERT_NCCL(ncclGroupEnd());
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_EQ(at[d].read()[0], 15);
    EXPECT_NCCL(ncclCommDestroy(comms[d]));
  }
  int twice[] = {1, 1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitAll(comms, 5, nullptr), ncclUnhandledCudaError);
}

TEST_F(Alone, SimulatedGroupSaysWhatItWouldTake) {
  ncclComm_t comm = make(8, 0);
  tidemark_device_trace(1);
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclAllReduce(nowhere, nowhere, 1 << 24, ncclFloat32, ncclSum, comm, nullptr));
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_NCCL(ncclGroupSimulateEnd(&info));
  EXPECT_TRUE(traced_kernels().empty());
  EXPECT_NCCL(ncclAllReduce(nowhere, nowhere, 1 << 24, ncclFloat32, ncclSum, comm, nullptr));
  auto kernels = traced_kernels();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_FLOAT_EQ(info.estimatedTime, static_cast<float>(kernels[0].end - kernels[0].start) / 1000);
  EXPECT_NCCL(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace tidemark::nccl::testing
