#include "harness/virtual/nccl/testing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "harness/virtual/device/deferred.h"
#include "harness/virtual/device/testing.h"

namespace tidemark::nccl::testing {
namespace {

const std::string time_limit = [] {
  const char* set = std::getenv("TIDEMARK_TIMEOUT");
  return set != nullptr ? set : "60";
}();

}  // namespace

std::vector<std::uint64_t> random_numbers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::uint64_t> numbers(count);
  std::ranges::generate(numbers, std::ref(generator));
  return numbers;
}

std::vector<Kernel> traced_kernels() {
  std::vector<Kernel> kernels;
  for (const tidemark_span& one : device::testing::traced()) {
    const std::string name = one.name;
    if (name.starts_with("nccl")) kernels.push_back({name, one.begin, one.end});
  }
  return kernels;
}

const char* name_of(Op op) {
  constexpr const char* names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                   "ncclBroadcast", "ncclReduce",    "ncclAlltoAll",
                                   "ncclGather",    "ncclScatter",   "ncclBcast"};
  return names[static_cast<std::size_t>(op)];
}

ncclResult_t call(Op op, const Arguments& a) {
  switch (op) {
    case Op::all_reduce:
      return ncclAllReduce(a.send, a.recv, a.count, a.type, a.reduction, a.comm, a.stream);
    case Op::all_gather:
      return ncclAllGather(a.send, a.recv, a.count, a.type, a.comm, a.stream);
    case Op::reduce_scatter:
      return ncclReduceScatter(a.send, a.recv, a.count, a.type, a.reduction, a.comm, a.stream);
    case Op::broadcast:
      return ncclBroadcast(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream);
    case Op::reduce:
      return ncclReduce(a.send, a.recv, a.count, a.type, a.reduction, a.root, a.comm, a.stream);
    case Op::all_to_all:
      return ncclAlltoAll(a.send, a.recv, a.count, a.type, a.comm, a.stream);
    case Op::gather:
      return ncclGather(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream);
    case Op::scatter:
      return ncclScatter(a.send, a.recv, a.count, a.type, a.root, a.comm, a.stream);
    case Op::bcast:
      return ncclBcast(a.recv, a.count, a.type, a.root, a.comm, a.stream);
  }
  return ncclInternalError;
}

ncclResult_t outcome(ncclResult_t called, ncclComm_t comm) {
  if (called != ncclSuccess) return called;
  ncclResult_t later = ncclSuccess;
  // On a GPU a collective without its partner never ends: the communicator has the error first.
  while (device::is_deferring() && later == ncclSuccess) {
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &later));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
  EXPECT_NCCL(ncclCommGetAsyncError(comm, &later));
  return later;
}

void World::SetUp() {
  setenv("TIDEMARK_TIMEOUT", time_limit.c_str(), 1);
  unsetenv("TIDEMARK_NCCL_WAITS");
  tidemark_device_set_data(data_);
  comm_ = world_communicator();
  ASSERT_NE(comm_, nullptr);
  ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
}

void World::TearDown() {
  barrier();
  EXPECT_NCCL(ncclCommDestroy(comm_));
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  tidemark_device_set_data(0);
}

}  // namespace tidemark::nccl::testing
