// Making communicators in every way, several at once, from several threads; groups and messages on
// them.
#include <algorithm>
#include <numeric>
#include <thread>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

class Communicators : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TIDEMARK_TIMEOUT", "60", 0);
    tidemark_device_set_data(1);
  }
  void TearDown() override { tidemark_device_set_data(0); }

  static ncclComm_t make(ncclUniqueId id, int size, int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&comm, size, id, rank));
    return comm;
  }

  /// The sum over the communicator of what each rank gives.
  static std::int64_t sum(ncclComm_t comm, std::int64_t value) {
    DeviceBuffer buffer(sizeof value);
    EXPECT_EQ(cudaMemcpy(buffer.data(), &value, sizeof value, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_NCCL(ncclAllReduce(buffer.data(), buffer.data(), 1, ncclInt64, ncclSum, comm, nullptr));
    EXPECT_EQ(cudaMemcpy(&value, buffer.data(), sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
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

  int rank_ = world_rank(), size_ = world_size();
};

// Each parity makes its own communicator at its own time; ids come from the other parity's ranks
// where there are any.
TEST_F(Communicators, SubgroupsThatKnowNothingOfEachOther) {
  int parity = rank_ % 2, members = (size_ + 1 - parity) / 2;
  ncclUniqueId ids[2] = {shared_id(size_ > 1 ? 1 : 0), shared_id(0)};
  if (parity == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ncclComm_t comm = make(ids[parity], members, rank_ / 2);
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
    comms.push_back(make(shared_id(i % size_), size_, (rank_ + i) % size_));
  for (int i = many - 1; i >= 0; --i) {
    DeviceBuffer mine(4), all(4 * static_cast<std::size_t>(size_));
    ASSERT_EQ(cudaMemcpy(mine.data(), &rank_, 4, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_NCCL(ncclAllGather(mine.data(), all.data(), 1, ncclInt32,
                              comms[static_cast<std::size_t>(i)], nullptr));
    std::vector<int> ranks(static_cast<std::size_t>(size_));
    ASSERT_EQ(cudaMemcpy(ranks.data(), all.data(), 4 * ranks.size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
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
  ncclComm_t world = world_communicator(), part = nullptr, whole = nullptr;
  EXPECT_NCCL(ncclCommSplit(world, rank_ % 3, -rank_, &part, nullptr));
  std::vector<int> members;
  for (int r = size_ - 1; r >= 0; --r) {
    if (r % 3 == rank_ % 3) members.push_back(r);
  }
  auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  expect_shape(part, static_cast<int>(members.size()), static_cast<int>(place));
  EXPECT_EQ(sum(part, 1 << rank_), std::accumulate(members.begin(), members.end(), 0,
                                                   [](int s, int r) { return s + (1 << r); }));

  EXPECT_NCCL(ncclCommSplit(world, rank_ == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &whole, nullptr));
  EXPECT_EQ(whole == nullptr, rank_ == 0);
  if (whole != nullptr) {
    EXPECT_EQ(sum(whole, 1), size_ - 1);
    EXPECT_NCCL(ncclCommDestroy(whole));
  }
  EXPECT_EQ(sum(world, 1), size_);  // the parent goes on
  EXPECT_NCCL(ncclCommDestroy(part));
  EXPECT_NCCL(ncclCommDestroy(world));
}

TEST_F(Communicators, ShrinkLeavesTheExcludedOut) {
  if (size_ < 2) GTEST_SKIP() << "no partner to exclude";
  ncclComm_t world = world_communicator(), rest = nullptr;
  int excluded = size_ / 2;
  if (rank_ != excluded) {
    EXPECT_NCCL(ncclCommShrink(world, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    expect_shape(rest, size_ - 1, rank_ - (rank_ > excluded ? 1 : 0));
    EXPECT_EQ(sum(rest, 1), size_ - 1);
    EXPECT_NCCL(ncclCommDestroy(rest));
  }
  EXPECT_NCCL(ncclCommDestroy(world));
}

TEST_F(Communicators, EveryThreadItsOwn) {
  constexpr int threads = 4;
  std::vector<ncclUniqueId> ids;
  for (int t = 0; t < threads; ++t) ids.push_back(shared_id(t % size_));
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([this, t, id = ids[static_cast<std::size_t>(t)]] {
      ncclComm_t comm = make(id, size_, rank_);
      for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(sum(comm, rank_ + 100 * t + i), size_ * (size_ - 1) / 2 + size_ * (100 * t + i));
      }
      EXPECT_NCCL(ncclCommDestroy(comm));
    });
  }
  for (std::thread& thread : running) thread.join();
}

TEST_F(Communicators, GroupsInOppositeOrdersDoNotDeadlock) {
  ncclComm_t a = make(shared_id(), size_, rank_), b = make(shared_id(), size_, rank_);
  std::int64_t values[2] = {rank_, 10 * rank_};
  DeviceBuffer buffer(sizeof values);
  ASSERT_EQ(cudaMemcpy(buffer.data(), values, sizeof values, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    int which = (rank_ + i) % 2;
    std::byte* at = buffer.data() + 8 * which;
    EXPECT_NCCL(ncclAllReduce(at, at, 1, ncclInt64, ncclSum, which == 0 ? a : b, nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_EQ(cudaMemcpy(values, buffer.data(), sizeof values, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(values[0], size_ * (size_ - 1) / 2);
  EXPECT_EQ(values[1], 10 * size_ * (size_ - 1) / 2);
  EXPECT_NCCL(ncclCommDestroy(a));
  EXPECT_NCCL(ncclCommDestroy(b));
}

// Receives before sends, every rank with every rank and with itself: the same as all-to-all.
TEST_F(Communicators, GroupedMessagesAreAnAllToAll) {
  ncclComm_t comm = world_communicator();
  for (std::size_t count : {std::size_t{1}, std::size_t{3000}, std::size_t{70000}}) {
    auto n = static_cast<std::size_t>(size_);
    auto input = elements(formats()[7], rank_, n * count, 77);
    DeviceBuffer send(input.size()), recv(input.size()), expected(input.size());
    send.write(input);
    EXPECT_NCCL(ncclGroupStart());
    for (int r = 0; r < size_; ++r) {
      EXPECT_NCCL(ncclRecv(recv.data() + static_cast<std::size_t>(r) * count * 4, count,
                           ncclFloat32, r, comm, nullptr));
    }
    for (int r = 0; r < size_; ++r) {
      EXPECT_NCCL(ncclSend(send.data() + static_cast<std::size_t>(r) * count * 4, count,
                           ncclFloat32, r, comm, nullptr));
    }
    ASSERT_NCCL(ncclGroupEnd());
    EXPECT_NCCL(ncclAlltoAll(send.data(), expected.data(), count, ncclFloat32, comm, nullptr));
    EXPECT_EQ(recv.read(0, input.size()), expected.read(0, input.size()));
    EXPECT_TRUE(recv.intact());
  }
  EXPECT_NCCL(ncclCommDestroy(comm));
}

// A send never waits for its receiver, and the buffer may be written again at once; order is kept.
TEST_F(Communicators, SendsAreBufferedAndStayInOrder) {
  if (size_ < 2) GTEST_SKIP() << "no partner to send to";
  ncclComm_t comm = world_communicator();
  constexpr std::size_t count = 300000;
  DeviceBuffer buffer(count * 4);
  for (int message = 0; message < 6 && rank_ == 0; ++message) {
    buffer.write(elements(formats()[2], message, count, 5));
    EXPECT_NCCL(ncclSend(buffer.data(), count, ncclInt32, 1, comm, nullptr));
  }
  barrier();
  for (int message = 0; message < 6 && rank_ == 1; ++message) {
    EXPECT_NCCL(ncclRecv(buffer.data(), count, ncclInt32, 0, comm, nullptr));
    EXPECT_EQ(buffer.read(0, count * 4), elements(formats()[2], message, count, 5)) << message;
  }
  EXPECT_NCCL(ncclCommDestroy(comm));
}

// Both ranks of a pair in every process: one thread may stand for several ranks within a group.
TEST_F(Communicators, SeveralRanksInOneProcess) {
  ncclUniqueId id = shared_id();
  ncclComm_t comms[2] = {};
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i)
    EXPECT_NCCL(ncclCommInitRank(&comms[i], 2 * size_, id, 2 * rank_ + i));
  ASSERT_NCCL(ncclGroupEnd());
  std::int64_t values[2] = {2 * rank_, 2 * rank_ + 1};
  DeviceBuffer buffer(sizeof values);
  ASSERT_EQ(cudaMemcpy(buffer.data(), values, sizeof values, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_NCCL(ncclGroupStart());
  for (int i = 0; i < 2; ++i) {
    expect_shape(comms[i], 2 * size_, 2 * rank_ + i);
    EXPECT_NCCL(ncclAllReduce(buffer.data() + 8 * i, buffer.data() + 8 * i, 1, ncclInt64, ncclSum,
                              comms[i], nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_EQ(cudaMemcpy(values, buffer.data(), sizeof values, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(values[0], size_ * (2 * size_ - 1));
  EXPECT_EQ(values[1], values[0]);
  for (ncclComm_t comm : comms) EXPECT_NCCL(ncclCommDestroy(comm));
}

TEST_F(Communicators, RegisteredAndAllocatedMemory) {
  ncclComm_t comm = world_communicator();
  void *memory = nullptr, *handle = nullptr;
  EXPECT_NCCL(ncclMemAlloc(&memory, 4096));
  EXPECT_NCCL(ncclCommRegister(comm, memory, 4096, &handle));
  EXPECT_NCCL(ncclCommDeregister(comm, handle));
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidArgument);
  EXPECT_NCCL(ncclMemFree(memory));
  EXPECT_NCCL(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace tidemark::nccl::testing
