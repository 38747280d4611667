// The books of a device's memory: drawn programs take and give back, and what is read tells the sum
// and the highest moment of each stretch, however many changes it had.
#include "harness/virtual/device/ledger.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

struct Read {
  std::int64_t sum = 0, highest = 0;
  std::size_t changes = 0;
  tidemark_refused refused{};
};

Read read_memory() {
  Read out;
  tidemark_device_read_memory(
      0,
      [](void* to, std::int64_t bytes, std::uint64_t) {
        Read& read = *static_cast<Read*>(to);
        read.highest = std::max(read.highest, read.sum += bytes);
        ++read.changes;
      },
      &out, &out.refused);
  return out;
}

struct Books : Calibrated {
  void SetUp() override {
    Calibrated::SetUp();
    ASSERT_EQ(0, tidemark_device_set_capacity(1024 * kMiB));
    read_memory();
  }
  void TearDown() override {
    EXPECT_EQ(0, tidemark_device_set_capacity(0));
    Calibrated::TearDown();
  }
};

TEST_F(Books, TellSumAndHighestMomentOfEachStretch) {
  std::mt19937 draw(12);  // NOLINT: the same programs each time
  for (const std::size_t length : {1, 3, 50, 4095, 4096, 4097, 9000}) {
    std::vector<std::pair<void*, std::int64_t>> held;
    for (int stretch = 0; stretch < 3; ++stretch) {
      std::int64_t sum = 0, highest = 0;
      for (std::size_t i = 0; i < length; ++i) {
        if (!held.empty() && (held.size() > 40 || draw() % 2 == 0)) {
          const std::size_t which = draw() % held.size();
          std::swap(held[which], held.back());
          CUDA(cudaFree(held.back().first));
          sum -= held.back().second;
          held.pop_back();
        } else {
          const std::size_t bytes = 1 + draw() % (8 * kMiB);
          void* one = nullptr;
          CUDA(cudaMalloc(&one, bytes));
          const std::size_t granules = (bytes + 2 * kMiB - 1) / (2 * kMiB);
          held.emplace_back(one, static_cast<std::int64_t>(granules * 2 * kMiB));
          sum += held.back().second;
        }
        highest = std::max(highest, sum);
      }
      const std::uint64_t before = tidemark_device_memory_changes();
      const Read read = read_memory();
      EXPECT_EQ(read.sum, sum) << length;
      EXPECT_EQ(read.highest, highest) << length;
      EXPECT_LE(read.changes, 4096u);
      EXPECT_EQ(read.refused.wanted, 0u);
      EXPECT_EQ(read_memory().changes, 0u) << "what is read is not told again";
      EXPECT_EQ(tidemark_device_memory_changes(), before) << "reading changes nothing";
    }
    for (const auto& [one, bytes] : held) CUDA(cudaFree(one));
    read_memory();
  }
}

TEST_F(Books, TellTheLastRequestThatWasRefused) {
  const Memory some(100 * kMiB);
  void* big = nullptr;
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&big, 1000 * kMiB));
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&big, ~std::size_t{0}));
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&big, 950 * kMiB));
  cudaGetLastError();
  const Read read = read_memory();
  EXPECT_EQ(read.refused.wanted, 950 * kMiB);
  EXPECT_EQ(read.refused.left, 924 * kMiB);
  EXPECT_EQ(read.sum, static_cast<std::int64_t>(100 * kMiB));
  EXPECT_EQ(tidemark_device_memory_total(0), 1024 * kMiB);
  EXPECT_EQ(tidemark_device_memory_total(99), 0u);
}

}  // namespace
