// A failure between ranks is an error on all of them, in words, within the time-out.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <thread>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Errors : public World {
 protected:
  Errors() : World(1) {}

  /// The last rank calls as the odd one: all of them must fail with the same text naming both
  /// calls.
  void expect_mismatch(const std::function<ncclResult_t(bool is_odd)>& call,
                       const std::string& named, const std::string& odd_named) {
    int odd = size_ - 1;
    EXPECT_EQ(outcome(call(rank_ == odd), comm_), ncclInvalidUsage);
    std::string text = ncclGetLastError(comm_);
    text.erase(0, text.find("mismatch"));  // before it, the call that has said it
    EXPECT_THAT(text, AllOf(HasSubstr("rank 0 called " + named),
                            HasSubstr("rank " + std::to_string(odd) + " called " + odd_named)));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(text, tidemark::testing::world().broadcast(text));
    ncclResult_t state = ncclSuccess;
    EXPECT_NCCL(ncclCommGetAsyncError(comm_, &state));
    EXPECT_EQ(state, ncclInvalidUsage);
    EXPECT_EQ(sum(), ncclInvalidUsage);  // and stays so
  }

  ncclResult_t sum(std::size_t count = 8, ncclDataType_t type = ncclFloat32,
                   ncclRedOp_t op = ncclSum) {
    return ncclAllReduce(buffer_.data(), buffer_.data(), count, type, op, comm_, nullptr);
  }
  ncclResult_t broadcast(int root) {
    return ncclBroadcast(buffer_.data(), buffer_.data(), 8, ncclFloat32, root, comm_, nullptr);
  }

  DeviceBuffer<float> buffer_{1024};
};

TEST_F(Errors, OtherCount) {
  expect_mismatch([&](bool odd) { return sum(odd ? 9 : 8); }, "ncclAllReduce(count 8,",
                  "ncclAllReduce(count 9,");
}
TEST_F(Errors, CountAndNothing) {
  expect_mismatch([&](bool odd) { return sum(odd ? 0 : 8); }, "ncclAllReduce(count 8,",
                  "ncclAllReduce(count 0,");
}
TEST_F(Errors, OtherType) {
  expect_mismatch([&](bool odd) { return sum(8, odd ? ncclInt32 : ncclFloat32); },
                  "ncclAllReduce(count 8, float32", "ncclAllReduce(count 8, int32");
}
TEST_F(Errors, OtherReduction) {
  expect_mismatch([&](bool odd) { return sum(8, ncclFloat32, odd ? ncclMin : ncclMax); },
                  "ncclAllReduce(count 8, float32, max)", "ncclAllReduce(count 8, float32, min)");
}
TEST_F(Errors, OtherRoot) {
  expect_mismatch([&](bool odd) { return broadcast(odd ? 1 : 0); },
                  "ncclBroadcast(count 8, float32, root 0)",
                  "ncclBroadcast(count 8, float32, root 1)");
}
TEST_F(Errors, OtherOrder) {
  EXPECT_NCCL(sum());
  const auto both = [&](bool odd) {
    const ncclResult_t result = outcome(sum(odd ? 17 : 16), comm_);
    EXPECT_EQ(sum(odd ? 16 : 17), ncclInvalidUsage);
    return result;
  };
  expect_mismatch(both, "ncclAllReduce(count 16,", "ncclAllReduce(count 17,");
}
TEST_F(Errors, DataOnOneRankOnly) {
  const auto without_data = [&](bool odd) {
    if (odd) tidemark_device_set_data(0);
    return sum();
  };
  expect_mismatch(without_data, "ncclAllReduce(count 8, float32, sum)",
                  "ncclAllReduce(count 8, float32, sum, no data)");
}
TEST_F(Errors, MismatchWithinAGroup) {
  const auto grouped = [&](bool odd) {
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(sum(4));
    EXPECT_NCCL(sum(odd ? 6 : 5));
    return ncclGroupEnd();
  };
  expect_mismatch(grouped, "ncclAllReduce(count 5,", "ncclAllReduce(count 6,");
}

TEST_F(Errors, MessagesOfDifferentLengths) {
  if (rank_ == 0) {
    EXPECT_NCCL(ncclSend(buffer_.data(), 3, ncclFloat32, 1, comm_, nullptr));
  }
  if (rank_ == 1) {
    EXPECT_EQ(outcome(ncclRecv(buffer_.data(), 4, ncclFloat32, 0, comm_, nullptr), comm_),
              ncclInvalidUsage);
  }
  barrier();
  if (rank_ > 1) return;
  ncclResult_t state = ncclSuccess;  // the sender, long gone on, hears of it too
  for (int i = 0; i < 1000 && state == ncclSuccess; ++i) {
    EXPECT_NCCL(ncclCommGetAsyncError(comm_, &state));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(state, ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(comm_),
              AllOf(HasSubstr("rank 0 called ncclSend(count 3, float32, to 1)"),
                    HasSubstr("rank 1 called ncclRecv(count 4, float32, from 0)")));
}

TEST_F(Errors, AMissingMessageIsNamed) {
  setenv("TIDEMARK_TIMEOUT", "0.5", 1);
  if (rank_ == 0) {
    EXPECT_EQ(outcome(ncclRecv(buffer_.data(), 4, ncclFloat32, 1, comm_, nullptr), comm_),
              ncclRemoteError);
    EXPECT_THAT(ncclGetLastError(comm_), AllOf(HasSubstr("rank 1 has not arrived"),
                                               HasSubstr("ncclRecv(count 4, float32, from 1)")));
  }
}

TEST_F(Errors, AMissingRankOfANewCommunicatorIsNamed) {
  setenv("TIDEMARK_TIMEOUT", "0.5", 1);
  ncclUniqueId id = shared_id();
  ncclComm_t comm = nullptr;
  if (rank_ != 1) {
    EXPECT_EQ(ncclCommInitRank(&comm, size_, id, rank_), ncclRemoteError);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 1 of " + std::to_string(size_) +
                                                     " ranks has not arrived after 0.5 s: rank 0" +
                                                     (size_ > 2 ? ", 2" : " ")));
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("waits in ncclCommInitRank"));
    EXPECT_EQ(comm, nullptr);
  }
}

TEST_F(Errors, ContradictionsAboutANewCommunicator) {
  ncclUniqueId ids[2] = {shared_id(), shared_id()};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, size_ + (rank_ == 0 ? 1 : 0), ids[0], rank_), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("wants a communicator of"));
  EXPECT_EQ(ncclCommInitRank(&comm, size_ + 1, ids[1], 0), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("both claim to be rank 0"));
}

TEST_F(Errors, AbortFromAnotherThreadEndsTheWaiting) {
  if (rank_ != 0) return;
  std::thread aborting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_NCCL(ncclCommAbort(comm_));
  });
  EXPECT_NCCL(sum());
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("was aborted while it waited in ncclAllReduce"));
  aborting.join();
  comm_ = nullptr;
}

TEST_F(Errors, ADestroyedPartnerStillServesWhatItSent) {
  ncclComm_t comm = world_communicator();
  EXPECT_NCCL(
      ncclAllReduce(buffer_.data(), buffer_.data(), 1000, ncclInt32, ncclSum, comm, nullptr));
  if (rank_ == 0) {
    EXPECT_NCCL(ncclSend(buffer_.data(), 900, ncclInt32, 1, comm, nullptr));
    EXPECT_NCCL(ncclCommDestroy(comm));
  }
  barrier();
  if (rank_ == 1) {
    EXPECT_NCCL(ncclRecv(buffer_.data(), 900, ncclInt32, 0, comm, nullptr));
  }
  if (rank_ == 0) {
    EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
    int count = 0;
    EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument);
  } else {
    EXPECT_NCCL(ncclCommDestroy(comm));
  }
}

TEST_F(Errors, BadArguments) {
  void* at = buffer_.data();
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(nullptr, at, 1, ncclFloat32, ncclSum, comm_, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(at, nullptr, 1, ncclFloat32, ncclSum, comm_, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclNumTypes, ncclSum, comm_, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(at, at, 1, ncclFloat32, static_cast<ncclRedOp_t>(9), comm_, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(at, at, SIZE_MAX / 2, ncclFloat32, ncclSum, comm_, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(broadcast(size_), ncclInvalidArgument);
  EXPECT_EQ(ncclSend(at, 1, ncclInt8, -1, comm_, nullptr), ncclInvalidArgument);
  int nothing = 0;
  EXPECT_EQ(sum(1, ncclFloat32, static_cast<ncclRedOp_t>(5)), ncclInvalidArgument);
  EXPECT_EQ(
      ncclAllReduce(at, at, 1, ncclInt8, ncclSum, reinterpret_cast<ncclComm_t>(&nothing), nullptr),
      ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, new_id(), 2), ncclInvalidArgument);
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comm_, at, 16, &window, 0), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("ncclCommWindowRegister: not supported"));
  // A bad call in a group keeps the whole group from running, on every rank alike.
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(sum());
  EXPECT_EQ(broadcast(-3), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_NCCL(sum());  // nothing of this has harmed the communicator
}

}  // namespace
}  // namespace tidemark::nccl::testing
