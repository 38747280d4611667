// The staged NCCL on streams that run beside the host: nothing waits at the call, no order of
// streams deadlocks, and whatever goes wrong lets the streams go.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "harness/virtual/nccl/testing/world.h"

namespace tidemark::nccl::testing {
namespace {

using ::testing::HasSubstr;

/// Holds a stream until it is opened.
struct Gate {
  std::atomic<bool> open = false;
  void hold(cudaStream_t stream) {
    cudaLaunchHostFunc(
        stream,
        [](void* gate) {
          while (!static_cast<Gate*>(gate)->open)
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        },
        this);
  }
};

struct Staged : ::testing::Test {
  void SetUp() override {
    setenv("TIDEMARK_TIMEOUT", "20", 1);
    for (auto& stream : streams) cudaStreamCreate(&stream);
    for (auto& comm : comms) comm = world_communicator();
  }
  void TearDown() override {
    for (auto& comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
    for (auto& stream : streams) cudaStreamDestroy(stream);
  }
  void synchronise() {
    for (auto& stream : streams) cudaStreamSynchronize(stream);
  }
  /// Waits for an error of the communicator that says all this, and ends it.
  void fails_with(ncclComm_t& comm, const std::string& text) {
    ncclResult_t error = ncclSuccess;
    for (int i = 0; i < 1000 && error == ncclSuccess; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
    }
    EXPECT_NE(error, ncclSuccess);
    EXPECT_THAT(ncclGetLastError(comm), HasSubstr(text));
    std::int64_t one = 1;
    EXPECT_NE(ncclAllReduce(&one, &one, 1, ncclInt64, ncclSum, comm, streams[0]), ncclSuccess)
        << "the next call says it too";
    synchronise();  // the streams were let go
    EXPECT_NCCL(ncclCommAbort(comm));
    comm = nullptr;
  }

  /// Adds up `value` over the ranks, on the stream and the communicator of this number.
  void add_up(std::int64_t& value, std::size_t which, ncclRedOp_t how = ncclSum) {
    EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt64, how, comms[which], streams[which]));
  }

  const int rank = world_rank(), size = world_size();
  const std::int64_t sum = size * (size - 1) / 2;  // of the ranks
  std::array<cudaStream_t, 2> streams = {};
  std::array<ncclComm_t, 2> comms = {};
};

TEST_F(Staged, CallsReturnLongBeforeTheirStreamsGetThere) {
  std::vector<std::int64_t> values(2, rank);
  std::array<Gate, 2> gates;
  for (std::size_t s = 0; s < 2; ++s) gates[s].hold(streams[s]);
  for (int i = 0; i < 200; ++i) {
    const auto s = static_cast<std::size_t>(i % 2);
    add_up(values[s], s, i < 2 ? ncclSum : ncclMax);
  }
  EXPECT_EQ(values, std::vector<std::int64_t>(2, rank)) << "nothing has run yet";
  for (Gate& gate : gates) gate.open = true;
  synchronise();
  EXPECT_EQ(values, std::vector<std::int64_t>(2, sum));
}

// Each rank's streams get there in another order, and wait for each other crosswise.
TEST_F(Staged, NoOrderOfStreamsDeadlocks) {
  std::vector<std::int64_t> values(2, rank);
  std::array<Gate, 2> gates;
  for (std::size_t s = 0; s < 2; ++s) gates[s].hold(streams[s]);
  for (int i = 0; i < 2; ++i) {
    const auto s = static_cast<std::size_t>((i + rank) % 2);
    add_up(values[s], s);
  }
  const auto first = static_cast<std::size_t>(rank % 2);
  gates[first].open = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gates[1 - first].open = true;
  synchronise();
  EXPECT_EQ(values, std::vector<std::int64_t>(2, sum));
}

// The staging grows while the stream still has smaller calls to make, and serves them all.
TEST_F(Staged, OneStagingServesAQueueOfAllSizes) {
  const std::vector<std::size_t> counts{1, 100'000, 3, 400'000, 20'000, 0, 400'000};
  std::vector<std::vector<float>> in, out;
  Gate gate;
  gate.hold(streams[0]);
  const auto n = static_cast<std::size_t>(size);
  for (const std::size_t count : counts) {
    auto& mine = in.emplace_back(count);
    std::iota(mine.begin(), mine.end(), static_cast<float>(rank));
    auto& all = out.emplace_back(count * n);
    EXPECT_NCCL(ncclAllGather(mine.data(), all.data(), count, ncclFloat32, comms[0], streams[0]));
  }
  gate.open = true;
  synchronise();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (std::size_t r = 0; r < n; ++r) {
      std::vector<float> theirs(counts[i]);
      std::iota(theirs.begin(), theirs.end(), static_cast<float>(r));
      const auto* begin = out[i].data() + r * counts[i];
      EXPECT_EQ(std::vector<float>(begin, begin + counts[i]), theirs) << i << " of rank " << r;
    }
  }
}

TEST_F(Staged, AGroupSendsAndReceivesInAnyOrderOnTwoStreams) {
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  std::int64_t mine = rank, theirs = -1, total = rank;
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclRecv(&theirs, 1, ncclInt64, last, comms[0], streams[0]));
  add_up(total, 1);
  EXPECT_NCCL(ncclSend(&mine, 1, ncclInt64, next, comms[0], streams[0]));
  EXPECT_NCCL(ncclGroupEnd());
  synchronise();
  EXPECT_EQ(theirs, last);
  EXPECT_EQ(total, sum);
}

TEST_F(Staged, DestroyWaitsForRunningOperations) {
  if (size == 1) GTEST_SKIP() << "nothing to exchange";
  std::int64_t value = rank;
  Gate gate;
  gate.hold(streams[0]);
  add_up(value, 0);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open = true;
  });
  EXPECT_NCCL(ncclCommDestroy(comms[0]));
  EXPECT_TRUE(gate.open);
  comms[0] = nullptr;
  later.join();
  synchronise();
  EXPECT_EQ(value, sum);
}

TEST_F(Staged, AMismatchIsAnErrorOfTheCommunicatorAndLetsTheStreamGo) {
  if (size == 1) GTEST_SKIP() << "nobody to differ from";
  std::vector<std::int64_t> values(8);
  const std::size_t count = rank == 0 ? 4 : 8;
  EXPECT_NCCL(
      ncclAllReduce(values.data(), values.data(), count, ncclInt64, ncclSum, comms[0], streams[0]));
  fails_with(comms[0], "mismatch on communicator");
  std::int64_t value = rank;  // the other communicator goes on
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt64, ncclSum, comms[1], streams[0]));
  synchronise();
  EXPECT_EQ(value, sum);
}

TEST_F(Staged, WhoDoesNotComeIsNamed) {
  if (size == 1) GTEST_SKIP() << "nobody to wait for";
  setenv("TIDEMARK_TIMEOUT", "1", 1);
  std::int64_t value = rank;
  if (rank > 0) {
    add_up(value, 0);
    fails_with(comms[0], "rank 0 has not arrived after 1 s");
  }
  barrier();
}

TEST_F(Staged, AbortLetsTheStreamGo) {
  if (size == 1) GTEST_SKIP() << "nobody to wait for";
  std::int64_t value = rank;
  if (rank == 0) add_up(value, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NCCL(ncclCommAbort(comms[0]));
  comms[0] = nullptr;
  synchronise();
  barrier();
}

// One process with the memory of one rank of many.
TEST_F(Staged, WithoutPartnersOnesOwnBytesFillTheirPlaces) {
  setenv("TIDEMARK_NCCL_ALONE", "1", 1);
  ncclComm_t comm = join(new_id(), 4, 2);
  unsetenv("TIDEMARK_NCCL_ALONE");
  const std::vector<int> in{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<int> gathered(8), slice(2), same(8), message(2, 9);
  EXPECT_NCCL(ncclAllGather(in.data(), gathered.data(), 2, ncclInt32, comm, streams[0]));
  EXPECT_NCCL(ncclReduceScatter(in.data(), slice.data(), 2, ncclInt32, ncclSum, comm, streams[0]));
  EXPECT_NCCL(ncclAllReduce(in.data(), same.data(), 8, ncclInt32, ncclAvg, comm, streams[0]));
  EXPECT_NCCL(ncclSend(in.data(), 2, ncclInt32, 3, comm, streams[0]));
  EXPECT_NCCL(ncclRecv(message.data(), 2, ncclInt32, 1, comm, streams[0]));
  synchronise();
  EXPECT_EQ(gathered, (std::vector<int>{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(slice, (std::vector<int>{5, 6}));
  EXPECT_EQ(same, in);
  EXPECT_EQ(message, (std::vector<int>{9, 9})) << "nobody has sent anything";
  EXPECT_NCCL(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace tidemark::nccl::testing
