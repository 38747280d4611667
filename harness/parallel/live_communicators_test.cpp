// Questions about communicators from outside their calls; each is ended once. NCCL's
// functions are defined here and call those of the library.
#include "harness/parallel/live_communicators.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "harness/parallel/communicator.h"
#include "harness/ranks/world.h"
#include "harness/testing/ranks.h"

namespace {

std::atomic<int> aborts = 0, aborted = 0, destroys = 0;
std::atomic<bool> first_hangs = false;
std::atomic<ncclResult_t> met = ncclSuccess;

}  // namespace

extern "C" ncclResult_t pncclCommAbort(ncclComm_t comm);
extern "C" ncclResult_t pncclCommDestroy(ncclComm_t comm);
extern "C" ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);

extern "C" ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (++aborts == 1)
    while (first_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const ncclResult_t result = pncclCommAbort(comm);
  ++aborted;
  return result;
}
extern "C" ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  ++destroys;
  return pncclCommDestroy(comm);
}
extern "C" ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const ncclResult_t result = pncclCommGetAsyncError(comm, error);
  if (result == ncclSuccess && met != ncclSuccess) *error = met;
  return result;
}

namespace tidemark {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

at::Tensor ones() { return at::ones({8}, at::TensorOptions().device(at::kCUDA).dtype(at::kFloat)); }

TEST(LiveCommunicators, AreWellAndGoWithTheirOwners) {
  World& world = testing::world();
  {
    Communicator one(world), other(world);
    one.all_reduce(ones(), Reduction::sum, {});
    EXPECT_EQ(live_communicators::trouble(), "");
    met = ncclInProgress;
    EXPECT_EQ(live_communicators::trouble(), "") << "not done is no error";
    met = ncclRemoteError;
    EXPECT_THAT(live_communicators::trouble(),
                AllOf(MatchesRegex("communicator [0-9]+ of [0-9]+ ranks: .*"),
                      HasSubstr(ncclGetErrorString(ncclRemoteError))));
  }
  EXPECT_EQ(live_communicators::trouble(), "") << "there is none any more";
  met = ncclSuccess;
  EXPECT_EQ(destroys, 2);
  EXPECT_EQ(aborts, 0);
}

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 4000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(5));
  return condition();
}

// The last one: a process does not go on after it.
TEST(LiveCommunicators, AreAbortedOnceAndAHangingAbortBlocksNoOther) {
  World& world = testing::world();
  destroys = 0;
  std::vector<std::unique_ptr<Communicator>> three;
  for (int i = 0; i < 3; ++i) three.push_back(std::make_unique<Communicator>(world));
  world.barrier();
  first_hangs = true;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(live_communicators::abort_all(milliseconds(2000)), 1);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds(2000));
  EXPECT_LT(took, std::chrono::seconds(30));
  EXPECT_EQ(aborts, 3);
  EXPECT_EQ(aborted, 2);

  EXPECT_EQ(live_communicators::trouble(), "") << "an aborted one is not asked";
  const auto refused = [&](const std::function<void()>& use) {
    try {
      use();
      ADD_FAILURE() << "after the end";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("this process has aborted its communicators"));
    }
  };
  refused([&] { three[0]->all_reduce(ones(), Reduction::sum, {}); });
  refused([&] { Communicator another(world); });
  three.clear();
  first_hangs = false;
  EXPECT_TRUE(soon([] { return aborted == 3; }));
  EXPECT_EQ(live_communicators::abort_all(std::chrono::seconds(60)), 0) << "none is left";
  EXPECT_EQ(aborts, 3);
  EXPECT_EQ(destroys, 0);
}

}  // namespace
}  // namespace tidemark
