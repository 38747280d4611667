// Ranks that no launcher started: processes that share a unique id and nothing else.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "harness/virtual/device/control.h"
#include "harness/virtual/nccl/testing.h"

namespace tidemark::nccl::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Memory of all processes of a test.
struct Shared {
  std::atomic<int> step{0};
  ncclUniqueId ids[4];
};

class Sockets : public ::testing::Test {
 protected:
  Shared& shared_ = *new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;

  /// How the process of every rank ended: its exit code, or minus a signal. Each is a child that
  /// runs `body`, and its code is 0 if no expectation failed.
  std::vector<int> run(int ranks, const std::function<void(int)>& body) {
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      pid_t child = fork();
      if (child == 0) {
        setenv("TIDEMARK_TIMEOUT", "60", 0);
        tidemark_device_set_data(1);
        body(rank);
        exit(HasFailure() ? 1 : 0);
      }
      children.push_back(child);
    }
    std::vector<int> codes;
    for (pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      codes.push_back(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
    }
    return codes;
  }

  /// The same where all of them have to succeed.
  void all_succeed(int ranks, const std::function<void(int)>& body) {
    EXPECT_EQ(run(ranks, body), std::vector<int>(static_cast<std::size_t>(ranks), 0));
  }
  void reach(int step) {
    while (shared_.step < step) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  /// The unique id number `index`, made by the process of rank `creator`.
  ncclUniqueId id(int rank, int creator = 0, int index = 0) {
    if (rank == creator) {
      EXPECT_NCCL(ncclGetUniqueId(&shared_.ids[index]));
      ++shared_.step;
    }
    reach(index + 1);
    return shared_.ids[index];
  }

  static ncclComm_t make(ncclUniqueId id, int size, int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&comm, size, id, rank));
    return comm;
  }

  static ncclResult_t sum(ncclComm_t comm, std::vector<int>& values) {
    DeviceBuffer buffer(4 * values.size());
    cudaMemcpy(buffer.data(), values.data(), 4 * values.size(), cudaMemcpyHostToDevice);
    ncclResult_t result = ncclAllReduce(buffer.data(), buffer.data(), values.size(), ncclInt32,
                                        ncclSum, comm, nullptr);
    cudaMemcpy(values.data(), buffer.data(), 4 * values.size(), cudaMemcpyDeviceToHost);
    return result;
  }
};

constexpr std::size_t large = 1 << 20;  // elements: several sends of the kernel's

TEST_F(Sockets, RanksMeetByTheUniqueId) {
  all_succeed(3, [&](int rank) {
    ncclComm_t comm = make(id(rank, 1), 3, rank);
    std::vector<int> values(large, 1 << rank);
    EXPECT_NCCL(sum(comm, values));
    EXPECT_EQ(values, std::vector<int>(large, 7));
    ncclComm_t pair = nullptr;
    EXPECT_NCCL(ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, -rank, &pair, nullptr));
    if (rank != 1) {
      std::vector<int> one{1 << rank};
      EXPECT_NCCL(sum(pair, one));
      EXPECT_EQ(one[0], 5);
      EXPECT_NCCL(ncclCommDestroy(pair));
    }
    EXPECT_NCCL(ncclCommDestroy(comm));
    comm = make(id(rank, 2, 1), 3, 2 - rank);  // again, after everything was destroyed
    std::vector<int> one{rank};
    EXPECT_NCCL(sum(comm, one));
    EXPECT_EQ(one[0], 3);
  });
}

TEST_F(Sockets, RanksOnThreadsOfTwoProcesses) {
  all_succeed(2, [&](int process) {
    ncclUniqueId unique = id(process);
    std::vector<std::thread> threads;
    for (int rank = 2 * process; rank < 2 * process + 2; ++rank) {
      threads.emplace_back([=] {
        ncclComm_t comm = make(unique, 4, rank);
        std::vector<int> one{1 << rank};
        EXPECT_NCCL(sum(comm, one));
        EXPECT_EQ(one[0], 15);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

// A large message, and the end of its sender.
void send_and_end(const std::function<void()>& end, int rank, ncclComm_t comm) {
  std::vector<int> values(8 * large, 3), got(8 * large);
  DeviceBuffer buffer(4 * values.size());
  if (rank == 0) {
    cudaMemcpy(buffer.data(), values.data(), 4 * values.size(), cudaMemcpyHostToDevice);
    EXPECT_NCCL(ncclSend(buffer.data(), values.size(), ncclInt32, 1, comm, nullptr));
    end();
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_NCCL(ncclRecv(buffer.data(), values.size(), ncclInt32, 0, comm, nullptr));
    cudaMemcpy(got.data(), buffer.data(), 4 * got.size(), cudaMemcpyDeviceToHost);
    EXPECT_EQ(got, values);
  }
}

TEST_F(Sockets, WhatALastCallSentArrives) {
  all_succeed(2, [&](int rank) { send_and_end([] {}, rank, make(id(rank), 2, rank)); });
}

TEST_F(Sockets, AProcessMayLeaveWithoutExit) {
  const auto end = [] {
    reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "tidemark_nccl_leave"))();
    _exit(0);
  };
  all_succeed(2, [&](int rank) { send_and_end(end, rank, make(id(rank), 2, rank)); });
}

TEST_F(Sockets, ARankThatNeverComesIsNamed) {
  all_succeed(3, [&](int rank) {
    setenv("TIDEMARK_TIMEOUT", "0.7", 1);
    ncclUniqueId unique = id(rank);
    if (rank == 1) return;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 3, unique, rank), ncclRemoteError);
    EXPECT_THAT(ncclGetLastError(nullptr),
                AllOf(HasSubstr("rank 1 of 3 ranks has not arrived after 0.7 s"),
                      HasSubstr("rank 0, 2 waits in ncclCommInitRank")));
  });
}

TEST_F(Sockets, AKilledRankIsNoticed) {
  auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(
      run(3,
          [&](int rank) {
            ncclComm_t comm = make(id(rank), 3, rank);
            std::vector<int> one{1};
            EXPECT_NCCL(sum(comm, one));
            ++shared_.step;
            reach(4);  // the first call has ended everywhere
            if (rank == 2) raise(SIGKILL);
            EXPECT_EQ(sum(comm, one), ncclRemoteError);
            EXPECT_THAT(
                ncclGetLastError(comm),
                HasSubstr(
                    "waits for it in ncclAllReduce(count 1, int32, sum), call 1 on communicator"));
          }),
      (std::vector<int>{0, 0, -SIGKILL}));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST_F(Sockets, TheEndOfTheIdsCreatorIsNoticed) {
  all_succeed(2, [&](int rank) {
    ncclUniqueId unique = id(rank);
    if (rank == 0) _exit(0);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, unique, 1), ncclRemoteError);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("which made the unique id, has ended"));
  });
}

TEST_F(Sockets, TwoProcessesThatClaimARank) {
  all_succeed(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 3, id(rank), 0), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("both claim to be rank 0 of 3"));
    ++shared_.step;
    reach(3);  // an early end would be noticed first
  });
}

TEST_F(Sockets, AForkOfAProcessThatUsedNcclIsRefused) {
  all_succeed(1, [&](int) {
    ncclUniqueId unique = id(0);
    pid_t child = fork();
    ncclComm_t comm = nullptr;
    if (child == 0) {
      EXPECT_EQ(ncclCommInitRank(&comm, 2, unique, 1), ncclInvalidUsage);
      EXPECT_THAT(ncclGetLastError(nullptr),
                  HasSubstr("after its first NCCL call and cannot use NCCL"));
      exit(HasFailure() ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  });
}

TEST_F(Sockets, AnIdOfAProcessDeclaredAloneTellsNoAddress) {
  all_succeed(2, [&](int rank) {
    if (rank == 0) setenv("TIDEMARK_NCCL_ALONE", "1", 1);
    ncclUniqueId unique = id(rank);
    if (rank == 0) return;
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, unique, 1), ncclInvalidUsage);
    EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("the unique id tells no address"));
  });
}

}  // namespace
}  // namespace tidemark::nccl::testing
