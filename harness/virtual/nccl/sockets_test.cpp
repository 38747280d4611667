// Ranks that no launcher started: processes that share a unique id and nothing else.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
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
  std::atomic<std::int64_t> durations[2] = {};  // ns
  ncclUniqueId id;
};

class Sockets : public ::testing::Test {
 protected:
  Shared& shared_ = *new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;

  /// Runs `body` in a child process for each rank. Returns their exit codes, or minus a signal; a
  /// code is 0 if no expectation failed.
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

  /// Runs `body` for each rank; all of them have to succeed.
  void all_succeed(int ranks, const std::function<void(int)>& body) {
    EXPECT_EQ(run(ranks, body), std::vector<int>(static_cast<std::size_t>(ranks), 0));
  }
  void reach(int step) {
    while (shared_.step < step) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  /// The unique id that rank 0 makes.
  ncclUniqueId id(int rank) {
    if (rank == 0) {
      shared_.id = new_id();
      ++shared_.step;
    }
    reach(1);
    return shared_.id;
  }
};

// A large message, and the end of its sender.
void send_and_end(const std::function<void()>& end, int rank, ncclComm_t comm) {
  const std::vector<int> values(1 << 23, 3);  // several sends of the kernel's
  if (rank == 0) {
    const DeviceBuffer buffer(values);
    EXPECT_NCCL(ncclSend(buffer.data(), values.size(), ncclInt32, 1, comm, nullptr));
    end();
  } else {
    const DeviceBuffer<int> buffer(values.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_NCCL(ncclRecv(buffer.data(), values.size(), ncclInt32, 0, comm, nullptr));
    EXPECT_EQ(buffer.read(), values);
  }
}

TEST_F(Sockets, WhatALastCallSentArrives) {
  all_succeed(2, [&](int rank) { send_and_end([] {}, rank, join(id(rank), 2, rank)); });
}

TEST_F(Sockets, AProcessMayLeaveWithoutExit) {
  const auto end = [] {
    reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "tidemark_nccl_leave"))();
    _exit(0);
  };
  all_succeed(2, [&](int rank) { send_and_end(end, rank, join(id(rank), 2, rank)); });
}

void reload_debug() {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  ncclResetDebugInit();
#pragma GCC diagnostic pop
}

/// The lines of a file, without what stands before "NCCL".
std::vector<std::string> lines_in(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line.substr(std::min(line.size(), line.find("NCCL"))));
  std::remove(path.c_str());
  return lines;
}

TEST_F(Sockets, WhatNcclSaysOfItselfIsInAFileOfEachProcess) {
  const std::string folder = ::testing::TempDir();
  all_succeed(2, [&](int rank) {
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", rank == 0 ? "INIT,COLL" : "^COLL", 1);
    setenv("NCCL_DEBUG_FILE", (folder + "/nccl.%p.%%").c_str(), 1);
    reload_debug();
    ncclComm_t comm = join(id(rank), 2, rank);
    const DeviceBuffer one(std::vector{1});
    EXPECT_NCCL(ncclAllReduce(one.data(), one.data(), 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(ncclInvalidArgument,
              ncclAllReduce(nullptr, one.data(), 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_NCCL(ncclCommDestroy(comm));
    const auto lines = lines_in(folder + "/nccl." + std::to_string(getpid()) + ".%");
    std::vector<::testing::Matcher<std::string>> expected{
        ::testing::StartsWith("NCCL version 2."),
        AllOf(HasSubstr("NCCL INFO comm"), HasSubstr("nranks 2 cudaDev 0"),
              HasSubstr("Init COMPLETE")),
        HasSubstr("NCCL WARN ncclAllReduce: sendbuff is NULL"), HasSubstr("Destroy COMPLETE")};
    if (rank == 0)
      expected.insert(expected.begin() + 2,
                      HasSubstr("NCCL INFO ncclAllReduce(count 1, int32, sum) sendbuff"));
    EXPECT_THAT(lines, ::testing::ElementsAreArray(expected));
  });
  all_succeed(1, [&](int) {
    setenv("NCCL_DEBUG", "VERSION", 1);
    reload_debug();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(ncclInvalidArgument, ncclCommCount(nullptr, nullptr));
    join(new_id(), 1, 0);
    EXPECT_THAT(::testing::internal::GetCapturedStdout(),
                ::testing::MatchesRegex("NCCL version [0-9.]+ \\(virtual\\)\n"));
  });
}

// A message of more parts than any of ours has: it is dropped, and the rank goes on.
TEST_F(Sockets, AMessageOfManyPartsIsDropped) {
  void* const zmq = dlopen("libzmq.so.5", RTLD_NOW);
  ASSERT_NE(zmq, nullptr);
  const auto find = [&](const char* name) { return dlsym(zmq, name); };
  all_succeed(2, [&](int rank) {
    ncclComm_t comm = join(id(rank), 2, rank);
    const DeviceBuffer one(std::vector{1});
    const auto sum = [&] {
      EXPECT_NCCL(ncclAllReduce(one.data(), one.data(), 1, ncclInt32, ncclSum, comm, nullptr));
    };
    sum();
    if (rank == 0) {
      std::string name, mine = "@tidemark-" + std::to_string(getpid()) + "-";
      std::ifstream all("/proc/net/unix");
      for (std::string word; all >> word;)
        if (word.starts_with(mine)) name = word;
      ASSERT_NE(name, "");
      void* const context = reinterpret_cast<void* (*)()>(find("zmq_ctx_new"))();
      void* const socket =
          reinterpret_cast<void* (*)(void*, int)>(find("zmq_socket"))(context, 8);  // PUSH
      const std::string endpoint = "ipc://" + name;
      EXPECT_EQ(reinterpret_cast<int (*)(void*, const char*)>(find("zmq_connect"))(
                    socket, endpoint.c_str()),
                0);
      const std::string part(1000, 'x');
      const auto send =
          reinterpret_cast<int (*)(void*, const void*, std::size_t, int)>(find("zmq_send"));
      for (int i = 0; i < 200; ++i)
        EXPECT_EQ(send(socket, part.data(), part.size(), i < 199 ? 2 : 0), 1000);  // SNDMORE
      reinterpret_cast<int (*)(void*)>(find("zmq_close"))(socket);
      reinterpret_cast<int (*)(void*)>(find("zmq_ctx_term"))(context);
    }
    sum();
    EXPECT_EQ(one.read()[0], 4);
  });
}

TEST_F(Sockets, AKilledRankIsNoticed) {
  auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(run(3,
                [&](int rank) {
                  ncclComm_t comm = join(id(rank), 3, rank);
                  const DeviceBuffer one(std::vector{1});
                  const auto sum = [&] {
                    return ncclAllReduce(one.data(), one.data(), 1, ncclInt32, ncclSum, comm,
                                         nullptr);
                  };
                  EXPECT_NCCL(sum());
                  EXPECT_EQ(one.read()[0], 3);
                  ++shared_.step;
                  reach(4);  // the first call has ended everywhere
                  if (rank == 2) raise(SIGKILL);
                  EXPECT_EQ(outcome(sum(), comm), ncclRemoteError);
                  EXPECT_THAT(
                      ncclGetLastError(comm),
                      HasSubstr("waits for it in ncclAllReduce(count 1, int32, sum), call 1 on "));
                  if (rank == 0)
                    EXPECT_THAT(ncclGetLastError(comm),
                                HasSubstr(", which has rank 2, has ended: rank 0"));
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
    EXPECT_THAT(ncclGetLastError(nullptr),
                HasSubstr(", which made the unique id, has ended: rank 1 waits"));
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

TEST_F(Sockets, ClocksThatDifferAreNamedOnBothSides) {
  const auto expect_named = [&](const std::function<void()>& differ, const std::string& ours,
                                const std::string& theirs) {
    shared_.step = 0;
    all_succeed(2, [&](int rank) {
      ASSERT_EQ(tidemark_device_set_schedule("calibrated"), 0);
      if (rank == 1) differ();
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, 2, id(rank), rank), ncclInvalidUsage);
      EXPECT_THAT(ncclGetLastError(nullptr),
                  AllOf(HasSubstr("rank 0 (process "), HasSubstr(ours), HasSubstr(theirs),
                        HasSubstr("rank 1 (process "), HasSubstr("need one clock")));
      ++shared_.step;
      reach(3);  // neither ends before the other has its answer
    });
  };
  expect_named([] { EXPECT_EQ(tidemark_device_set_schedule("lagging"), 0); }, "schedule calibrated",
               "schedule lagging");
  expect_named([] { EXPECT_EQ(tidemark_device_set_profile("a100-80g"), 0); },
               "GPU profile h100-80g (figures ", "GPU profile a100-80g (figures ");
}

// Eight consecutive ranks of the job are a node. Ranks 0 and 1 of a communicator take the longer
// over the network where their launcher says that they are ranks 7 and 8.
TEST_F(Sockets, ANodeIsOfConsecutiveRanksOfTheJob) {
  const auto duration = [&](const std::vector<int>& ranks_of_job) {
    shared_.step = 0;
    all_succeed(2, [&](int rank) {
      for (const char* variable :
           {"TIDEMARK_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
        unsetenv(variable);
      const int rank_in_job = ranks_of_job[static_cast<std::size_t>(rank)];
      if (rank_in_job >= 0) setenv("RANK", std::to_string(rank_in_job).c_str(), 1);
      tidemark_device_set_data(0);
      ncclComm_t comm = join(id(rank), 2, rank);
      tidemark_device_trace(1);
      auto* nowhere = reinterpret_cast<void*>(std::uintptr_t{0x1000});
      EXPECT_NCCL(ncclAllReduce(nowhere, nowhere, 1 << 20, ncclInt32, ncclSum, comm, nullptr));
      const Kernel kernel = traced_kernels().at(0);
      shared_.durations[rank] = kernel.end - kernel.start;
    });
    EXPECT_EQ(shared_.durations[0], shared_.durations[1]);
    return shared_.durations[0].load();
  };
  const std::int64_t near = duration({3, 4}), far = duration({7, 8});
  EXPECT_LT(near, far);
  EXPECT_EQ(duration({8, 7}), far);
  EXPECT_EQ(duration({-1, -1}), near);  // torch.multiprocessing.spawn
  EXPECT_EQ(duration({9, 9}), near);    // processes that one rank has started
}

}  // namespace
}  // namespace tidemark::nccl::testing
