// Any two collectives that meet by mistake are an error on every rank, which names both sides; a
// collective whose partner does not come, or has aborted, or that is called on a communicator that
// is over, likewise. All pairs, all collectives.
#include <gmock/gmock.h>

#include <cstdlib>
#include <iterator>

#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Pairs : public World {
 protected:
  Pairs() : World(0) {}
  ncclResult_t run(Op op, ncclComm_t comm) {
    return call(op, {buffer_.data(), buffer_.data(), 4, comm});
  }

  const int last_ = size_ - 1;
  DeviceBuffer<float> buffer_{1024};
};

TEST_F(Pairs, TwoMismatchedCollectivesAreNamedOnEveryRank) {
  int pairs = 0;
  for (const Op one : kCollectives) {
    for (const Op other : kCollectives) {
      if (one == other) continue;
      SCOPED_TRACE(std::string(name_of(one)) + " and " + name_of(other));
      ncclComm_t comm = world_communicator();
      EXPECT_EQ(outcome(run(rank_ == last_ ? other : one, comm), comm), ncclInvalidUsage);
      EXPECT_THAT(ncclGetLastError(comm),
                  AllOf(HasSubstr("mismatch on communicator"),
                        HasSubstr("rank 0 called " + std::string(name_of(one)) + "(count 4,"),
                        HasSubstr("rank " + std::to_string(last_) + " called " + name_of(other) +
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
  for (const Op one : kCollectives) {
    SCOPED_TRACE(name_of(one));
    ncclComm_t comm = world_communicator();
    if (rank_ != last_) {
      EXPECT_EQ(outcome(run(one, comm), comm), ncclRemoteError);
      EXPECT_THAT(ncclGetLastError(comm),
                  AllOf(HasSubstr("rank " + std::to_string(last_) + " has not arrived after 0.3 s"),
                        HasSubstr("waits in " + std::string(name_of(one)) + "(count 4, float32")));
    }
    barrier();
    ncclCommDestroy(comm);
  }
  RecordProperty("cases", static_cast<int>(std::size(kCollectives)));
}

TEST_F(Pairs, NoCollectiveRunsAfterDestroyOrAbort) {
  for (const Op one : kCollectives) {
    SCOPED_TRACE(name_of(one));
    ncclComm_t aborted = world_communicator(), destroyed = world_communicator();
    EXPECT_NCCL(ncclCommDestroy(destroyed));
    EXPECT_NE(run(one, destroyed), ncclSuccess);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("was destroyed before"));
    EXPECT_EQ(ncclCommDestroy(destroyed), ncclInvalidArgument);
    if (rank_ == last_) {
      EXPECT_NCCL(ncclCommAbort(aborted));
      EXPECT_NE(run(one, aborted), ncclSuccess);
      EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("was aborted before"));
      EXPECT_EQ(ncclCommAbort(aborted), ncclInvalidArgument);
    } else {
      EXPECT_EQ(outcome(run(one, aborted), aborted), ncclRemoteError);
      EXPECT_THAT(ncclGetLastError(nullptr),
                  AllOf(HasSubstr("rank " + std::to_string(last_) +
                                  " has aborted the communicator while rank"),
                        HasSubstr(std::string(name_of(one)) + "(count 4, float32")));
      ncclCommDestroy(aborted);
    }
    barrier();
  }
  RecordProperty("cases", static_cast<int>(std::size(kCollectives)));
}

}  // namespace
}  // namespace tidemark::nccl::testing
