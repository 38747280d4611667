// Making communicators in every way, several at once, from several threads; groups and messages on
// them.
#include <algorithm>
#include <numeric>
#include <thread>

#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

class Communicators : public World {
 protected:
  Communicators() : World(1) {}

  /// The sum over the communicator of what each rank gives.
  static std::int64_t sum(ncclComm_t comm, std::int64_t value) {
    const DeviceBuffer buffer(std::vector{value});
    EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclInt64, ncclSum, comm, nullptr));
    return buffer.read()[0];
  }

  static void expect_shape(ncclComm_t comm, int size, int rank) {
    int got = -1;
    EXPECT_NCCL(ncclCommCount(comm, &got));
    EXPECT_EQ(got, size);
    EXPECT_NCCL(ncclCommUserRank(comm, &got));
    EXPECT_EQ(got, rank);
    EXPECT_NCCL(ncclCommCuDevice(comm, &got));
    EXPECT_EQ(got, 0);
  }
};

// Each parity makes its own communicator at its own time; ids come from the other parity's ranks
// where there are any.
TEST_F(Communicators, SubgroupsThatKnowNothingOfEachOther) {
  int parity = rank_ % 2, members = (size_ + 1 - parity) / 2;
  ncclUniqueId ids[2] = {shared_id(size_ > 1 ? 1 : 0), shared_id(0)};
  if (parity == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ncclComm_t comm = join(ids[parity], members, rank_ / 2);
  expect_shape(comm, members, rank_ / 2);
  std::int64_t expected = 0;
  for (int r = parity; r < size_; r += 2) expected += 1 << r;
  EXPECT_EQ(sum(comm, 1 << rank_), expected);
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Communicators, ManyAtOnceInDifferentOrdersOfRanks) {
  constexpr int many = 5;
  std::vector<ncclComm_t> comms;
  for (int i = 0; i < many; ++i)
    comms.push_back(join(shared_id(i % size_), size_, (rank_ + i) % size_));
  for (int i = many - 1; i >= 0; --i) {
    const DeviceBuffer mine(std::vector{rank_});
    const DeviceBuffer<int> all(static_cast<std::size_t>(size_));
    EXPECT_NCCL(ncclAllGather(mine.data(), all.data(), 1, ncclInt32,
                              comms[static_cast<std::size_t>(i)], nullptr));
    const std::vector<int> ranks = all.read();
    for (int r = 0; r < size_; ++r) EXPECT_EQ(ranks[static_cast<std::size_t>((r + i) % size_)], r);
  }
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Communicators, SeveralIdsMakeOne) {
  ncclUniqueId ids[2] = {shared_id(0), shared_id(size_ - 1)};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ASSERT_NCCL(ncclCommInitRankScalable(&comm, size_, rank_, 2, ids, &config));
  ncclResult_t state = ncclInProgress;
  EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(sum(comm, 1), size_);
  EXPECT_NCCL(ncclCommFinalize(comm));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Communicators, SplitOrdersByKeyThenRank) {
  ncclComm_t part = nullptr, whole = nullptr;
  EXPECT_NCCL(ncclCommSplit(comm_, rank_ % 3, -rank_, &part, nullptr));
  std::vector<int> members;
  for (int r = size_ - 1; r >= 0; --r) {
    if (r % 3 == rank_ % 3) members.push_back(r);
  }
  auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  expect_shape(part, static_cast<int>(members.size()), static_cast<int>(place));
  EXPECT_EQ(sum(part, 1 << rank_), std::accumulate(members.begin(), members.end(), 0,
                                                   [](int s, int r) { return s + (1 << r); }));

  EXPECT_NCCL(ncclCommSplit(comm_, rank_ == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &whole, nullptr));
  EXPECT_EQ(whole == nullptr, rank_ == 0);
  if (whole != nullptr) {
    EXPECT_EQ(sum(whole, 1), size_ - 1);
    EXPECT_NCCL(ncclCommDestroy(whole));
  }
  EXPECT_EQ(sum(comm_, 1), size_);  // the parent goes on
  EXPECT_NCCL(ncclCommDestroy(part));
}

TEST_F(Communicators, ShrinkLeavesTheExcludedOut) {
  if (size_ < 2) GTEST_SKIP() << "no partner to exclude";
  ncclComm_t rest = nullptr;
  int excluded = size_ / 2;
  if (rank_ == excluded) return;
  EXPECT_NCCL(ncclCommShrink(comm_, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
  expect_shape(rest, size_ - 1, rank_ - (rank_ > excluded ? 1 : 0));
  EXPECT_EQ(sum(rest, 1), size_ - 1);
  EXPECT_NCCL(ncclCommDestroy(rest));
}

TEST_F(Communicators, EveryThreadItsOwn) {
  constexpr int threads = 4;
  std::vector<ncclUniqueId> ids;
  for (int t = 0; t < threads; ++t) ids.push_back(shared_id(t % size_));
  std::vector<std::thread> running;
  const DeviceBuffer<std::int64_t> all(threads);
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([this, t, at = all.data() + t, id = ids[static_cast<std::size_t>(t)]] {
      ncclComm_t comm = join(id, size_, rank_);
      cudaStream_t stream = nullptr;  // its own, as on a GPU: the orders of the threads differ
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      for (int i = 0; i < 50; ++i) {
        std::int64_t value = rank_ + 100 * t + i;
        ASSERT_EQ(cudaMemcpyAsync(at, &value, sizeof value, cudaMemcpyDefault, stream),
                  cudaSuccess);
        EXPECT_NCCL(ncclAllReduce(at, at, 1, ncclInt64, ncclSum, comm, stream));
        ASSERT_EQ(cudaMemcpyAsync(&value, at, sizeof value, cudaMemcpyDefault, stream),
                  cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
        ASSERT_EQ(value, size_ * (size_ - 1) / 2 + size_ * (100 * t + i));
      }
      EXPECT_NCCL(ncclCommDestroy(comm));
      EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    });
  }
  for (std::thread& thread : running) thread.join();
}

TEST_F(Communicators, GroupsInOppositeOrdersDoNotDeadlock) {
  ncclComm_t other = world_communicator();
  const DeviceBuffer buffer(std::vector{rank_, 10 * rank_});
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    int which = (rank_ + i) % 2;
    int* at = buffer.data() + which;
    EXPECT_NCCL(ncclAllReduce(at, at, 1, ncclInt32, ncclSum, which == 0 ? comm_ : other, nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  const int sum = size_ * (size_ - 1) / 2;
  EXPECT_EQ(buffer.read(), (std::vector{sum, 10 * sum}));
  EXPECT_NCCL(ncclCommDestroy(other));
}

// Receives before sends, every rank with every rank and with itself: the same as all-to-all.
TEST_F(Communicators, GroupedMessagesAreAnAllToAll) {
  const auto n = static_cast<std::size_t>(size_);
  for (std::size_t count : {1, 3000, 70000}) {
    const DeviceBuffer send(elements<float>(rank_, n * count, 77));
    const DeviceBuffer<float> recv(n * count), expected(n * count);
    EXPECT_NCCL(ncclGroupStart());
    for (std::size_t r = 0; r < n; ++r) {
      EXPECT_NCCL(ncclRecv(recv.data() + r * count, count, ncclFloat32, static_cast<int>(r), comm_,
                           nullptr));
    }
    for (std::size_t r = 0; r < n; ++r) {
      EXPECT_NCCL(ncclSend(send.data() + r * count, count, ncclFloat32, static_cast<int>(r), comm_,
                           nullptr));
    }
    ASSERT_NCCL(ncclGroupEnd());
    EXPECT_NCCL(ncclAlltoAll(send.data(), expected.data(), count, ncclFloat32, comm_, nullptr));
    EXPECT_EQ(recv.read(), expected.read());
    EXPECT_TRUE(recv.intact());
  }
}

// A send never waits for its receiver, and the buffer may be written again at once; order is kept.
TEST_F(Communicators, SendsAreBufferedAndStayInOrder) {
  if (size_ < 2) GTEST_SKIP() << "no partner to send to";
  constexpr std::size_t count = 300000;
  DeviceBuffer<int> buffer(count);
  for (int message = 0; message < 6 && rank_ == 0; ++message) {
    buffer.write(elements<int>(message, count, 5));
    EXPECT_NCCL(ncclSend(buffer.data(), count, ncclInt32, 1, comm_, nullptr));
  }
  barrier();
  for (int message = 0; message < 6 && rank_ == 1; ++message) {
    EXPECT_NCCL(ncclRecv(buffer.data(), count, ncclInt32, 0, comm_, nullptr));
    EXPECT_EQ(buffer.read(), elements<int>(message, count, 5)) << message;
  }
}

// Both ranks of a pair in every process: one thread may stand for several ranks within a group.
TEST_F(Communicators, SeveralRanksInOneProcess) {
  ncclUniqueId id = shared_id();
  ncclComm_t comms[2] = {};
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i)
    EXPECT_NCCL(ncclCommInitRank(&comms[i], 2 * size_, id, 2 * rank_ + i));
  ASSERT_NCCL(ncclGroupEnd());
  const DeviceBuffer buffer(std::vector{2 * rank_, 2 * rank_ + 1});
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    expect_shape(comms[i], 2 * size_, 2 * rank_ + i);
    EXPECT_NCCL(ncclAllReduce(buffer.data() + i, buffer.data() + i, 1, ncclInt32, ncclSum, comms[i],
                              nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(buffer.read(), std::vector<int>(2, size_ * (2 * size_ - 1)));
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Communicators, RegisteredAndAllocatedMemory) {
  void *memory = nullptr, *handle = nullptr;
  EXPECT_NCCL(ncclMemAlloc(&memory, 4096));
  EXPECT_NCCL(ncclCommRegister(comm_, memory, 4096, &handle));
  EXPECT_NCCL(ncclCommDeregister(comm_, handle));
  EXPECT_EQ(ncclCommDeregister(comm_, handle), ncclInvalidArgument);
  EXPECT_NCCL(ncclMemFree(memory));
}

}  // namespace
}  // namespace tidemark::nccl::testing
