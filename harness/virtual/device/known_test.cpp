// Mode known: which bytes of the device are known after allocations, copies, memsets and launches,
// and that no byte without a value is read.
#include "harness/virtual/device/known.h"

#include <cuda.h>

#include <numeric>
#include <random>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

constexpr char host_function = 0;

// The library has a set of its own, which is hidden; this one is judged by what the calls say.
struct Known : Calibrated {
  static void SetUpTestSuite() { register_kernel(&host_function, "_Z6kernelPf"); }
  void SetUp() override {
    Calibrated::SetUp();
    tidemark_device_set_data(2);
    CUDA(cudaMalloc(&memory_, 8 * kMiB));
  }
  void TearDown() override {
    CUDA(cudaFree(memory_));
    EXPECT_EQ(0u, tidemark_device_known_bytes());
    Calibrated::TearDown();
  }
  char* at(size_t offset) const { return static_cast<char*>(memory_) + offset; }
  void mark(size_t begin, size_t end, bool is = true) {
    tidemark_device_mark_known(at(begin), end - begin, is);
  }
  bool known(size_t begin, size_t end) const {
    return tidemark_device_is_known(at(begin), end - begin) != 0;
  }

  void* memory_ = nullptr;
};

TEST_F(Known, RangesAreThoseOfATableOfBytes) {
  constexpr size_t kBytes = 96;
  std::mt19937 random(7);
  const auto draw = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<bool> table(kBytes);
  for (int step = 0; step < 4000; ++step) {
    const size_t begin = draw(kBytes), end = begin + draw(kBytes - begin + 1);
    const size_t target = draw(kBytes - (end - begin) + 1);
    const size_t what = draw(5);
    if (what < 2) {
      mark(begin, end);
      std::fill(table.begin() + begin, table.begin() + end, true);
    } else if (what < 4) {
      mark(begin, end, false);
      std::fill(table.begin() + begin, table.begin() + end, false);
    } else if (target >= end || target + (end - begin) <= begin) {
      CUDA(cudaMemcpy(at(target), at(begin), end - begin, cudaMemcpyDeviceToDevice));
      std::copy(table.begin() + begin, table.begin() + end, table.begin() + target);
    }
    ASSERT_EQ(static_cast<uint64_t>(std::count(table.begin(), table.end(), true)),
              tidemark_device_known_bytes());
    const size_t first = draw(kBytes), last = first + draw(kBytes - first + 1);
    ASSERT_EQ(std::all_of(table.begin() + first, table.begin() + last, [](bool b) { return b; }),
              known(first, last));
  }
}

TEST_F(Known, OnlyBytesThatTheHostWroteAreReadBack) {
  std::vector<unsigned char> sent(100), got(100, 9);
  std::iota(sent.begin(), sent.end(), static_cast<unsigned char>(1));
  CUDA(cudaMemcpy(at(0), sent.data(), 100, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(at(200), at(0), 100, cudaMemcpyDeviceToDevice));
  CUDA(cudaMemset(at(250), 5, 50));
  CUDA(cudaMemcpy(got.data(), at(200), 100, cudaMemcpyDeviceToHost));
  std::fill(sent.begin() + 50, sent.end(), static_cast<unsigned char>(5));
  EXPECT_EQ(sent, got);
  EXPECT_EQ(cudaErrorNotSupported, cudaMemcpy(got.data(), at(201), 100, cudaMemcpyDeviceToHost));
  EXPECT_EQ(sent, got);
  CUDA(cudaMemcpy(at(240), at(400), 20, cudaMemcpyDeviceToDevice));  // unknown over known
  EXPECT_TRUE(known(200, 240) && known(260, 300) && !known(240, 241) && !known(259, 260));
}

TEST_F(Known, MoreThanTheLimitIsNotKept) {
  std::vector<char> host(2 * kMiB);
  const size_t limit = tidemark_device_known_limit();
  ASSERT_EQ(kMiB / 4, limit);
  CUDA(cudaMemcpy(at(0), host.data(), limit, cudaMemcpyHostToDevice));
  EXPECT_TRUE(known(0, limit));
  CUDA(cudaMemcpy(at(0), host.data(), limit + 1, cudaMemcpyHostToDevice));
  EXPECT_FALSE(known(0, 1) || known(limit, limit + 1));
  CUDA(cudaMemset(at(0), 1, limit));
  CUDA(cudaMemset(at(0), 1, limit + 1));
  EXPECT_EQ(0u, tidemark_device_known_bytes());
}

TEST_F(Known, FreedMemoryIsUnknown) {
  void* again = nullptr;
  CUDA(cudaMemset(at(0), 1, 100));
  CUDA(cudaFree(memory_));
  CUDA(cudaMalloc(&again, 8 * kMiB));
  ASSERT_EQ(memory_, again);
  EXPECT_FALSE(known(0, 1));
  CUDA(cudaMallocAsync(&again, 512, nullptr));
  CUDA(cudaMemsetAsync(again, 1, 512, nullptr));
  CUDA(cudaFreeAsync(again, nullptr));
  void* second = nullptr;
  CUDA(cudaMallocAsync(&second, 512, nullptr));
  ASSERT_EQ(again, second);
  EXPECT_FALSE(tidemark_device_is_known(second, 1));
  CUDA(cudaFreeAsync(second, nullptr));
}

TEST_F(Known, ALaunchMakesTheBlocksOfItsArgumentsUnknown) {
  struct Packed {
    long first;
    void* inside;
  } packed{3, at(5000)};
  void* none = nullptr;
  void* arguments[] = {&none, &packed, nullptr};
  tidemark_device_new_block(at(4096), 1024);
  mark(0, 3 * 4096);
  EXPECT_EQ(cudaSuccess, launch(&host_function, arguments));
  EXPECT_TRUE(known(0, 4096) && known(5120, 3 * 4096));
  EXPECT_FALSE(known(4096, 4097) || known(5119, 5120));
  tidemark_device_new_block(at(4096), 0);
  tidemark_device_suspend_data(1);  // in an operator of the layer, which says it itself
  mark(4096, 5120);
  EXPECT_EQ(cudaSuccess, launch(&host_function, arguments));
  tidemark_device_suspend_data(-1);
  EXPECT_TRUE(known(0, 3 * 4096));
  EXPECT_EQ(cudaSuccess, launch(&host_function, arguments));
  EXPECT_EQ(0u, tidemark_device_known_bytes());  // the program's own allocation is one block
}

}  // namespace
