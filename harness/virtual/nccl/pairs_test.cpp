// Any two collectives that meet by mistake are an error on every rank, which names both sides; a
// collective whose partner does not come, or has aborted, or that is called on a communicator that
// is over, likewise. All pairs, all collectives.
#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>

#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Collective {
  const char* name;
  std::function<ncclResult_t(void*, ncclComm_t)> call;
};

const std::vector<Collective>& collectives() {
  static const std::vector<Collective> all{
      {"ncclAllReduce",
       [](void* at, ncclComm_t c) {
         return ncclAllReduce(at, at, 4, ncclFloat32, ncclSum, c, nullptr);
       }},
      {"ncclAllGather",
       [](void* at, ncclComm_t c) { return ncclAllGather(at, at, 4, ncclFloat32, c, nullptr); }},
      {"ncclReduceScatter",
       [](void* at, ncclComm_t c) {
         return ncclReduceScatter(at, at, 4, ncclFloat32, ncclSum, c, nullptr);
       }},
      {"ncclBroadcast",
       [](void* at, ncclComm_t c) { return ncclBroadcast(at, at, 4, ncclFloat32, 0, c, nullptr); }},
      {"ncclReduce",
       [](void* at, ncclComm_t c) {
         return ncclReduce(at, at, 4, ncclFloat32, ncclSum, 0, c, nullptr);
       }},
      {"ncclAlltoAll",
       [](void* at, ncclComm_t c) { return ncclAlltoAll(at, at, 4, ncclFloat32, c, nullptr); }},
      {"ncclGather",
       [](void* at, ncclComm_t c) { return ncclGather(at, at, 4, ncclFloat32, 0, c, nullptr); }},
      {"ncclScatter",
       [](void* at, ncclComm_t c) { return ncclScatter(at, at, 4, ncclFloat32, 0, c, nullptr); }},
  };
  return all;
}

class Pairs : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TIDEMARK_TIMEOUT", "60", 1); }
  void TearDown() override { barrier(); }
  int rank_ = world_rank(), last_ = world_size() - 1;
  DeviceBuffer buffer_{4096};
};

TEST_F(Pairs, TwoMismatchedCollectivesAreNamedOnEveryRank) {
  int pairs = 0;
  for (const Collective& one : collectives()) {
    for (const Collective& other : collectives()) {
      if (one.name == other.name) continue;
      SCOPED_TRACE(std::string(one.name) + " and " + other.name);
      ncclComm_t comm = world_communicator();
      EXPECT_EQ((rank_ == last_ ? other : one).call(buffer_.data(), comm), ncclInvalidUsage);
      EXPECT_THAT(ncclGetLastError(comm),
                  AllOf(HasSubstr("mismatch on communicator"),
                        HasSubstr("rank 0 called " + std::string(one.name) + "(count 4,"),
                        HasSubstr("rank " + std::to_string(last_) + " called " + other.name +
                                  "(count 4,")));
      barrier();
      ncclCommDestroy(comm);
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 56);
  RecordProperty("cases", pairs);
}

TEST_F(Pairs, TheMissingRankAndItsCollectiveAreNamed) {
  setenv("TIDEMARK_TIMEOUT", "0.3", 1);
  for (const Collective& one : collectives()) {
    SCOPED_TRACE(one.name);
    ncclComm_t comm = world_communicator();
    if (rank_ != last_) {
      EXPECT_EQ(one.call(buffer_.data(), comm), ncclRemoteError);
      EXPECT_THAT(ncclGetLastError(comm),
                  AllOf(HasSubstr("rank " + std::to_string(last_) + " has not arrived after 0.3 s"),
                        HasSubstr("waits in " + std::string(one.name) + "(count 4, float32")));
    }
    barrier();
    ncclCommDestroy(comm);
  }
  RecordProperty("cases", static_cast<int>(collectives().size()));
}

TEST_F(Pairs, NoCollectiveRunsAfterDestroyOrAbort) {
  for (const Collective& one : collectives()) {
    SCOPED_TRACE(one.name);
    ncclComm_t aborted = world_communicator(), destroyed = world_communicator();
    EXPECT_NCCL(ncclCommDestroy(destroyed));
    EXPECT_NE(one.call(buffer_.data(), destroyed), ncclSuccess);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("was destroyed before"));
    EXPECT_EQ(ncclCommDestroy(destroyed), ncclInvalidArgument);
    if (rank_ == last_) {
      EXPECT_NCCL(ncclCommAbort(aborted));
      EXPECT_NE(one.call(buffer_.data(), aborted), ncclSuccess);
      EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("was aborted before"));
      EXPECT_EQ(ncclCommAbort(aborted), ncclInvalidArgument);
    } else {
      EXPECT_EQ(one.call(buffer_.data(), aborted), ncclRemoteError);
      EXPECT_THAT(ncclGetLastError(nullptr),
                  AllOf(HasSubstr("rank " + std::to_string(last_) +
                                  " has aborted the communicator while rank"),
                        HasSubstr(std::string(one.name) + "(count 4, float32")));
      ncclCommDestroy(aborted);
    }
    barrier();
  }
  RecordProperty("cases", static_cast<int>(collectives().size()));
}

}  // namespace
}  // namespace tidemark::nccl::testing
