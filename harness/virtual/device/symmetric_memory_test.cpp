// Kernels of symmetric memory: ranks are threads here, with a stream each and buffers in one
// device. The names are those of PyTorch 2.6 and 2.11.
#include <cuda_bf16.h>

#include <array>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

#define OPS "_ZN64_GLOBAL__N__62167398_25_CUDASymmetricMemoryOps_cu_70c0f2ac_13507"
constexpr const char* kBarrier = "_ZN4c10d16symmetric_memoryL14barrier_kernelEPPjiiim";
constexpr const char* kPut = "_ZN4c10d16symmetric_memoryL17put_signal_kernelEPPjiiiim";
constexpr const char* kTake = "_ZN4c10d16symmetric_memoryL18wait_signal_kernelEPPjiiiim";
constexpr const char* kOneShot = OPS "L26one_shot_all_reduce_kernelIfLi16ELi2EEEvPPT_S2_mmPPjmm";
constexpr const char* kOneShotCopy =
    OPS "L26one_shot_all_reduce_kernelIN3c108BFloat16ELi16ELin1EEEvPPT_S4_S4_mmPPjmm";
constexpr const char* kTwoShot26 = OPS "L26two_shot_all_reduce_kernelIfLi8ELi4EEEvPPT_mmPPjmm";
constexpr const char* kTwoShotInPlace =
    OPS "L34two_shot_all_reduce_kernel_inplaceIfLi4ELi4EEEvPPT_mmPPjmm";
constexpr const char* kTwoShot =
    OPS "L26two_shot_all_reduce_kernelIfLi4ELi2ELb0ELb0EEEvPPT_S2_mmPPjmmm";
constexpr const char* kScatter =
    OPS "L26two_shot_all_reduce_kernelIfLi4ELi2ELb1ELb0EEEvPPT_S2_mmPPjmmm";
constexpr const char* kScatterColumns =
    OPS "L26two_shot_all_reduce_kernelIfLi4ELi2ELb1ELb1EEEvPPT_S2_mmPPjmmm";

/// Buffers and pads of so many ranks, and the arrays of their addresses.
struct Ranks {
  explicit Ranks(std::size_t size, std::size_t floats = 64)
      : size(size), floats(floats), memory(size * (floats * 4 + kPad)), arrays(2 * size * 8) {
    EXPECT_EQ(cudaSuccess, cudaMemset(memory, 0, size * (floats * 4 + kPad)));
    std::vector<char*> all;
    for (std::size_t i = 0; i < size; ++i) all.push_back(memory + i * floats * 4);
    for (std::size_t i = 0; i < size; ++i) all.push_back(memory + size * floats * 4 + i * kPad);
    EXPECT_EQ(cudaSuccess, cudaMemcpy(arrays, all.data(), 2 * size * 8, cudaMemcpyHostToDevice));
    for (std::size_t i = 0; i < size; ++i) streams.push_back(make_stream());
  }

  template <class... Arguments>
  static cudaError_t start(const char* kernel, cudaStream_t stream, Arguments... values) {
    register_kernel(kernel, kernel);
    void* arguments[] = {&values...};
    return cudaLaunchKernel(kernel, dim3(1), dim3(32), arguments, 0, stream);
  }
  void* buffers() const { return static_cast<char*>(arrays); }
  void* pads() const { return static_cast<char*>(arrays) + 8 * size; }

  cudaError_t barrier(int rank, std::uint64_t timeout_ms = 0) const {
    return start(kBarrier, streams[static_cast<std::size_t>(rank)], pads(), 3, rank,
                 static_cast<int>(size), timeout_ms);
  }
  cudaError_t put(int rank, int to, std::uint64_t timeout_ms = 0) const {
    return start(kPut, streams[static_cast<std::size_t>(rank)], pads(), to, 0, rank,
                 static_cast<int>(size), timeout_ms);
  }
  cudaError_t take(int rank, int from, std::uint64_t timeout_ms = 0) const {
    return start(kTake, streams[static_cast<std::size_t>(rank)], pads(), from, 0, rank,
                 static_cast<int>(size), timeout_ms);
  }

  /// A reduction of `count` elements of all buffers into `out`; `more` are further arguments.
  template <class... More>
  cudaError_t reduce(const char* kernel, std::size_t rank, char* out, std::size_t offset,
                     std::size_t count, More... more) const {
    return start(kernel, streams[rank], buffers(), out, offset, count, pads(), rank, size, more...);
  }

  /// Each rank in a thread of its own, until its stream is empty.
  void each(const std::function<void(std::size_t)>& work) const {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < size; ++rank)
      threads.emplace_back([this, rank, &work] {
        work(rank);
        EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(streams[rank]));
      });
    for (std::thread& one : threads) one.join();
  }

  template <class T>
  void fill(std::size_t rank, const std::vector<T>& values) const {
    EXPECT_EQ(cudaSuccess, cudaMemcpy(memory + rank * floats * 4, values.data(),
                                      values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  template <class T = float>
  static std::vector<T> read(const void* from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(cudaSuccess,
              cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  std::vector<float> buffer(std::size_t rank, std::size_t count) const {
    return read(memory + rank * floats * 4, count);
  }
  bool pads_are_empty() const {
    const auto words = read<std::uint32_t>(memory + size * floats * 4, size * kPad / 4);
    return std::count(words.begin(), words.end(), 0u) == static_cast<long>(words.size());
  }

  static constexpr std::size_t kPad = 2048;
  std::size_t size, floats;
  Memory memory, arrays;
  std::vector<cudaStream_t> streams;
};

std::vector<float> numbers(std::size_t count, std::size_t rank) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(100 * (rank + 1) + i));
  return values;
}
std::vector<float> sums(std::size_t count, std::size_t ranks) {
  std::vector<float> values(count);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) values[i] += numbers(count, rank)[i];
  return values;
}

/// In modes math and known.
struct SymmetricMemory : Calibrated, ::testing::WithParamInterface<int> {
  void SetUp() override {
    Calibrated::SetUp();
    tidemark_device_set_data(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(All, SymmetricMemory, ::testing::Values(1, 2));

TEST_P(SymmetricMemory, ABarrierEndsWhenTheLastRankHasCome) {
  const Ranks ranks(3);
  constexpr std::int64_t kWork = 5'000'000;
  std::array<float, 3> ms{};
  ranks.each([&](std::size_t rank) {
    cudaEvent_t begin = make_event(), end = make_event();
    CUDA(cudaEventRecord(begin, ranks.streams[rank]));
    if (rank == 1) run(ranks.streams[rank], kWork);
    for (int times = 0; times < 3; ++times) CUDA(ranks.barrier(static_cast<int>(rank)));
    CUDA(cudaEventRecord(end, ranks.streams[rank]));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(&ms[rank], begin, end));
  });
  for (const float one : ms) EXPECT_GE(one, 4.9);
  EXPECT_TRUE(ranks.pads_are_empty());
}

TEST_P(SymmetricMemory, ASignalIsTakenAfterItWasPut) {
  const Ranks ranks(2);
  ranks.each([&](std::size_t rank) {
    for (float value = 1; value < 20; ++value) {
      if (rank == 0) {
        ranks.fill(1, std::vector<float>{value});
        CUDA(ranks.put(0, 1));
        CUDA(ranks.take(0, 1));
      } else {
        CUDA(ranks.take(1, 0));
        EXPECT_EQ(std::vector<float>{value}, ranks.buffer(1, 1));
        CUDA(ranks.put(1, 0));
      }
    }
  });
  EXPECT_TRUE(ranks.pads_are_empty());
}

TEST_P(SymmetricMemory, OneShotSumsAllBuffersInTheOutput) {
  const Ranks ranks(2);
  const Memory out(2 * 40);
  ranks.each([&](std::size_t rank) {
    ranks.fill(rank, numbers(12, rank));
    CUDA(ranks.reduce(kOneShot, rank, out + 40 * rank, 2, 10));
  });
  const std::vector<float> all = sums(12, 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(std::vector<float>(all.begin() + 2, all.end()), Ranks::read(out + 40 * rank, 10));
    EXPECT_EQ(numbers(12, rank), ranks.buffer(rank, 12));
  }
  EXPECT_TRUE(ranks.pads_are_empty());
}

// 256 + 1 is 256 in bfloat16, and 256 + (1 + 1) is not: sums are rounded one by one.
TEST_P(SymmetricMemory, BFloat16IsRoundedAfterEachAddition) {
  const Ranks ranks(3);
  const Memory out(3 * 2), local(3 * 2);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const __nv_bfloat16 value = __float2bfloat16_rn(rank == 0 ? 256 : 1);
    CUDA(cudaMemcpy(local + 2 * rank, &value, 2, cudaMemcpyHostToDevice));
  }
  ranks.each([&](std::size_t rank) {
    CUDA(Ranks::start(kOneShotCopy, ranks.streams[rank], ranks.buffers(), out + 2 * rank,
                      local + 2 * rank, std::size_t{0}, std::size_t{1}, ranks.pads(), rank,
                      std::size_t{3}));
  });
  for (const __nv_bfloat16 one : Ranks::read<__nv_bfloat16>(out, 3))
    EXPECT_EQ(256, __bfloat162float(one));
}

TEST_P(SymmetricMemory, TwoShotLeavesTheSumsInEveryBuffer) {
  for (const char* const kernel : {kTwoShot26, kTwoShotInPlace}) {
    const Ranks ranks(4);
    ranks.each([&](std::size_t rank) {
      ranks.fill(rank, numbers(42, rank));
      CUDA(Ranks::start(kernel, ranks.streams[rank], ranks.buffers(), std::size_t{0},
                        std::size_t{42}, ranks.pads(), rank, std::size_t{4}));
    });
    for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(sums(42, 4), ranks.buffer(rank, 42));
    EXPECT_TRUE(ranks.pads_are_empty());
  }
}

TEST_P(SymmetricMemory, TwoShotWithAnOutput) {
  const Ranks ranks(2);
  const Memory out(2 * 28);
  ranks.each([&](std::size_t rank) {
    ranks.fill(rank, numbers(7, rank));
    CUDA(ranks.reduce(kTwoShot, rank, out + 28 * rank, 0, 7, std::size_t{0}));
  });
  for (std::size_t rank = 0; rank < 2; ++rank)
    EXPECT_EQ(sums(7, 2), Ranks::read(out + 28 * rank, 7));
  EXPECT_TRUE(ranks.pads_are_empty());
}

TEST_P(SymmetricMemory, ReduceScatterOfRowsAndOfColumns) {
  const std::vector<float> all = sums(24, 2);
  for (const bool columns : {false, true}) {
    const Ranks ranks(2);
    const Memory out(2 * 48);
    ranks.each([&](std::size_t rank) {
      ranks.fill(rank, numbers(24, rank));
      CUDA(ranks.reduce(columns ? kScatterColumns : kScatter, rank, out + 48 * rank, 0, 24,
                        std::size_t{columns ? 6u : 0u}));
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::vector<float> expected;
      for (std::size_t i = 0; i < 24; ++i)
        if ((columns ? i % 6 / 3 : i / 12) == rank) expected.push_back(all[i]);
      EXPECT_EQ(expected, Ranks::read(out + 48 * rank, 12)) << columns;
    }
  }
}

// As the kernels trap; the process has no device afterwards.
using SymmetricMemoryDeathTest = Calibrated;

TEST_F(SymmetricMemoryDeathTest, APartnerThatComesTooLateOnTheDevicesClock) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto late = [] {
    tidemark_device_set_data(1);
    const Ranks ranks(2);
    run(ranks.streams[1], 10'000'000);
    ranks.put(1, 0);
    if (ranks.take(0, 1, 11) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) exit(1);
    run(ranks.streams[1], 10'000'000);
    ranks.put(1, 0);
    ranks.take(0, 1, 1);
    const cudaError_t error = cudaDeviceSynchronize();
    exit(error == cudaErrorLaunchFailure && cudaFree(nullptr) == error ? 0 : 2);
  };
  EXPECT_EXIT(late(), ::testing::ExitedWithCode(0),
              "wait_signal_kernel \\(symmetric memory\\): rank 0 received no signal of rank 1 on "
              "channel 0 within 1 ms");
}

TEST_F(SymmetricMemoryDeathTest, APartnerThatDoesNotCome) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto alone = [] {
    tidemark_device_set_data(1);
    const Ranks ranks(2);
    ranks.put(0, 1);
    ranks.put(0, 1, 1);
    exit(cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 2);
  };
  EXPECT_EXIT(alone(), ::testing::ExitedWithCode(0),
              "put_signal_kernel \\(symmetric memory\\): rank 0 waited for an earlier signal to "
              "rank 1 to be taken on channel 0 within 1 ms");
}

}  // namespace
