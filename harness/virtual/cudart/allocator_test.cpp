// PyTorch's caching allocator where the device's memory ends, and with expandable segments: what it
// does here is what it does on a GPU, because it is the real one. Random programs hold the rest
// against the model (reference/memory/allocator_test.cpp).
#include <c10/core/AllocatorConfig.h>
#include <gtest/gtest.h>

#include "harness/virtual/device/testing.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

using tidemark::device::testing::kMiB;

struct Allocator : testing::Test {
  size_t total = 0;  // bytes of the device as PyTorch knows it

  void SetUp() override {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    ASSERT_EQ(0, tidemark_device_set_schedule("lagging"));
    size_t left = 0;
    ASSERT_EQ(cudaSuccess, cudaMemGetInfo(&left, &total));
    rest();
    ASSERT_EQ(0, tidemark_device_set_capacity(1024 * kMiB)) << tidemark_device_error();
  }
  void TearDown() override {
    settings("expandable_segments:False");
    allocator::get()->setMemoryFraction(1.0, 0);
    rest();
    EXPECT_EQ(0, reserved());
    ASSERT_EQ(0, tidemark_device_set_capacity(0));
  }
  static void settings(const char* text) { c10::CachingAllocator::setAllocatorSettings(text); }
  static void rest() {
    c10::cuda::device_synchronize();
    allocator::emptyCache();
    allocator::get()->resetPeakStats(0);
    allocator::get()->resetAccumulatedStats(0);
  }
  // A fraction of what the device had when PyTorch first asked for its properties. PyTorch cuts the
  // product down to a whole byte, which may be one byte less than `bytes`: one byte more is asked
  // for.
  void limit(size_t bytes) {
    const double fraction = static_cast<double>(bytes + 1) / static_cast<double>(total);
    allocator::get()->setMemoryFraction(fraction, 0);
  }
  static auto stats() { return allocator::getDeviceStats(0); }
  static int64_t reserved() { return stats().reserved_bytes[0].current; }
  static c10::DataPtr take(size_t bytes) { return allocator::get()->allocate(bytes); }
};

// holds: harness/virtual/README.md, Memory
TEST_F(Allocator, ZeroBytesAreNothing) {
  auto p = take(0);
  EXPECT_EQ(nullptr, p.get());
  EXPECT_EQ(0, reserved());
}

TEST_F(Allocator, AtCapacityItReleasesItsCacheAndTriesAgain) {
  auto a = take(600 * kMiB);
  a.clear();
  auto b = take(700 * kMiB);
  EXPECT_EQ(1, stats().num_alloc_retries);
  EXPECT_EQ(0, stats().num_ooms);
  EXPECT_EQ(700 * int64_t{kMiB}, reserved());
}

TEST_F(Allocator, OutOfMemorySaysWhatItSaysOnAGpu) {
  auto a = take(600 * kMiB);
  try {
    auto b = take(2048 * kMiB);
    FAIL() << "2 GiB of 1";
  } catch (const c10::OutOfMemoryError& e) {
    const std::string text = e.what_without_backtrace();
    EXPECT_EQ(0u, text.find("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
                            "capacity of 1024.00 MiB of "
                            "which 424.00 MiB is free. Including non-PyTorch memory, this process "
                            "has 600.00 MiB memory in use. "))
        << text;
    EXPECT_NE(std::string::npos, text.find("600.00 MiB is allocated by PyTorch")) << text;
  }
  EXPECT_EQ(1, stats().num_ooms);
  EXPECT_EQ(1, stats().num_alloc_retries);
  EXPECT_EQ(cudaSuccess, cudaGetLastError()) << "the allocator clears the error";
}

TEST_F(Allocator, MemoryFractionIsALimitOfItsOwn) {
  limit(512 * kMiB);
  auto a = take(512 * kMiB);
  EXPECT_THROW(take(2 * kMiB), c10::OutOfMemoryError);
}

TEST_F(Allocator, ExpandableSegmentsGrowInPlaceAndUnmap) {
  settings("expandable_segments:True");
  auto a = take(30 * kMiB), b = take(30 * kMiB);
  EXPECT_EQ(static_cast<char*>(a.get()) + 30 * kMiB, b.get());
  EXPECT_EQ(60 * int64_t{kMiB}, reserved());
  const auto used = [] {
    size_t left = 0, all = 0;
    cudaMemGetInfo(&left, &all);
    return all - left;
  };
  EXPECT_EQ(60 * kMiB, used());
  a.clear();
  auto c = take(40 * kMiB);  // does not fit into a's 30: the segment grows
  EXPECT_EQ(static_cast<char*>(b.get()) + 30 * kMiB, c.get());
  EXPECT_EQ(100 * int64_t{kMiB}, reserved());
  allocator::emptyCache();
  EXPECT_EQ(80 * int64_t{kMiB}, reserved())
      << "whole 20 MiB pages inside a's 30 are unmapped, wherever they lie";
  EXPECT_EQ(80 * kMiB, used());
  auto d = take(950 * kMiB - 200 * kMiB);
  EXPECT_THROW(take(300 * kMiB), c10::OutOfMemoryError);
}

}  // namespace
