// Words in memory: a write is seen, a wait lasts until the word is right, and no longer.
#include <cuda.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

struct Values : EachSchedule {
  void SetUp() override {
    EachSchedule::SetUp();
    void* memory = nullptr;
    CUDA(cudaHostAlloc(&memory, 64, cudaHostAllocMapped));
    word = static_cast<std::uint32_t*>(memory);
    *word = 0;
    void* mapped = nullptr;
    CUDA(cudaHostGetDevicePointer(&mapped, memory, 0));
    at = reinterpret_cast<CUdeviceptr>(mapped);
  }
  void TearDown() override { CUDA(cudaFreeHost(word)); }

  std::uint32_t* word = nullptr;
  CUdeviceptr at = 0;
};
INSTANTIATE_TEST_SUITE_P(All, Values, kSchedules, schedule_name);

TEST_P(Values, AWriteIsSeenWithoutDataToo) {
  EXPECT_EQ(CUDA_SUCCESS, cuStreamWriteValue32(make_stream(), at, 7, 0));
  EXPECT_EQ(7u, *word);
}

TEST_P(Values, AWaitLastsUntilTheWordIsRight) {
  struct Case {
    unsigned flags;
    std::uint32_t wanted, wrong, right;
  };
  // GEQ compares as numbers that may wrap.
  for (const Case& c :
       {Case{CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6}, Case{CU_STREAM_WAIT_VALUE_GEQ, 2, 0xffffffff, 2},
        Case{CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5}, Case{CU_STREAM_WAIT_VALUE_AND, 4, 3, 12},
        Case{CU_STREAM_WAIT_VALUE_NOR, 1, 0xfffffffe, 0xfffffffc}}) {
    const std::atomic_ref shared(*word);
    shared = c.wrong;
    std::atomic<bool> written = false;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      written = true;
      shared = c.right;
    });
    EXPECT_EQ(CUDA_SUCCESS, cuStreamWaitValue32(make_stream(), at, c.wanted, c.flags));
    EXPECT_TRUE(written) << "flags " << c.flags;
    other.join();
  }
}

TEST_P(Values, AWaitForAValueThatIsNeverWrittenEnds) {
  setenv("TIDEMARK_TIMEOUT", "0.05", 1);
  EXPECT_EQ(CUDA_ERROR_LAUNCH_TIMEOUT,
            cuStreamWaitValue32(make_stream(), at, 1, CU_STREAM_WAIT_VALUE_EQ));
  unsetenv("TIDEMARK_TIMEOUT");
}

TEST_P(Values, BadArgumentsAreRefused) {
  const cudaStream_t s = make_stream();
  std::uint32_t pageable = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(s, at + 2, 0, 0)) << "not aligned";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(s, at, 0, 9)) << "no such comparison";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuStreamWaitValue32(s, reinterpret_cast<CUdeviceptr>(&pageable), 0, 0));
  const Memory memory(64);
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
            cuStreamWaitValue32(s, reinterpret_cast<CUdeviceptr>(memory.at), 0, 0))
      << "without data, device memory never changes";
}

/// An effect that counts, of a kernel that waits for two signals.
struct Product {
  Product() {
    tidemark_device_set_data(1);
    EXPECT_EQ(cudaSuccess, cudaMemset(signals, 0, 8));
  }
  ~Product() { tidemark_device_set_data(0); }
  void start(cudaStream_t stream) {
    tidemark_device_run_when_signalled(
        stream, static_cast<const std::uint32_t*>(signals.at), 2, "product",
        [](void* count) { return ++*static_cast<std::atomic<int>*>(count) > 0 ? 0 : 1; }, &times,
        [](void*) {});
  }
  void set(cudaStream_t stream, std::size_t word) const {
    const auto at = reinterpret_cast<CUdeviceptr>(signals.at) + 4 * word;
    EXPECT_EQ(CUDA_SUCCESS, cuStreamWriteValue32(stream, at, 1, 0));
  }

  Memory signals{8};
  std::atomic<int> times = 0;
};
struct Signalled : EachSchedule {};
INSTANTIATE_TEST_SUITE_P(All, Signalled, kSchedules, schedule_name);

TEST_P(Signalled, ItsStreamAloneWaitsUntilAllAreSet) {
  Product product;
  const cudaStream_t waits = make_stream(), brings = make_stream();
  product.set(waits, 1);
  product.start(waits);
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(waits));
  const auto begin = std::chrono::steady_clock::now();
  CUDA(cudaStreamSynchronize(brings));
  EXPECT_EQ(0, product.times);
  product.set(brings, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  CUDA(cudaStreamSynchronize(waits));
  EXPECT_EQ(1, product.times);
}

TEST(SignalledDeathTest, SignalsThatNeverCome) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto alone = [] {
    setenv("TIDEMARK_TIMEOUT", "0.05", 1);
    Product product;
    product.start(nullptr);
    exit(cudaDeviceSynchronize() == cudaErrorLaunchTimeout ? 0 : 2);
  };
  EXPECT_EXIT(alone(), ::testing::ExitedWithCode(0), "product has waited .* for signals in memory");
}

}  // namespace
