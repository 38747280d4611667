// PyTorch's caching allocator at the borders of its rules: what it does here is what it does on a
// GPU, because it is the real one. Sizes from c10/core/AllocatorConfig.h: 512 B granule; up to 1
// MiB from 2 MiB segments; below 10 MiB from 20 MiB segments; above in segments of its own, rounded
// up to 2 MiB.
#include <c10/core/AllocatorConfig.h>
#include <gtest/gtest.h>

#include "harness/virtual/device/testing.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;

constexpr size_t kMiB = size_t{1} << 20;

void use(const CUDAStream& stream, tidemark::device::Ns duration = 1'000'000'000) {
  tidemark::device::testing::run(stream, duration);
}

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
    reset();
    rest();
    EXPECT_EQ(0, reserved());
    ASSERT_EQ(0, tidemark_device_set_capacity(0));
  }
  static void settings(const char* text) { c10::CachingAllocator::setAllocatorSettings(text); }
  static void reset() {
    c10::CachingAllocator::setAllocatorSettings(
        "max_split_size_mb:1048576,garbage_collection_threshold:0.999999,roundup_power2_divisions:"
        "1,"
        "expandable_segments:False");
    allocator::get()->setMemoryFraction(1.0, 0);
  }
  static void rest() {
    c10::cuda::device_synchronize();
    allocator::emptyCache();
    allocator::get()->resetPeakStats(0);
    allocator::get()->resetAccumulatedStats(0);
  }
  // A fraction of what the device had when PyTorch first asked for its properties.
  void limit(size_t bytes) {
    allocator::get()->setMemoryFraction(static_cast<double>(bytes) / static_cast<double>(total), 0);
  }
  static auto stats() { return allocator::getDeviceStats(0); }
  static int64_t allocated() { return stats().allocated_bytes[0].current; }
  static int64_t active() { return stats().active_bytes[0].current; }
  static int64_t reserved() { return stats().reserved_bytes[0].current; }
  static int64_t segments() { return stats().segment[0].current; }
  static c10::DataPtr take(size_t bytes) { return allocator::get()->allocate(bytes); }
};

struct Sizes {
  size_t asked;
  int64_t allocated, reserved;
};
struct AllocatorSizes : Allocator, testing::WithParamInterface<Sizes> {};
INSTANTIATE_TEST_SUITE_P(
    Borders, AllocatorSizes,
    testing::Values(
        Sizes{1, 512, 2 * kMiB}, Sizes{511, 512, 2 * kMiB}, Sizes{512, 512, 2 * kMiB},
        Sizes{513, 1024, 2 * kMiB}, Sizes{kMiB - 512, kMiB - 512, 2 * kMiB},
        Sizes{kMiB, kMiB, 2 * kMiB},
        // A large block is only split where more than 1 MiB is left.
        Sizes{kMiB + 1, kMiB + 512, 20 * kMiB}, Sizes{kMiB + 512, kMiB + 512, 20 * kMiB},
        Sizes{10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB}, Sizes{10 * kMiB, 10 * kMiB, 10 * kMiB},
        Sizes{10 * kMiB + 512, 10 * kMiB + 512, 12 * kMiB},
        Sizes{11 * kMiB - 512, 11 * kMiB - 512, 12 * kMiB}, Sizes{11 * kMiB, 12 * kMiB, 12 * kMiB},
        Sizes{20 * kMiB, 20 * kMiB, 20 * kMiB}, Sizes{20 * kMiB + 1, 20 * kMiB + 512, 22 * kMiB}));

TEST_P(AllocatorSizes, RoundAndReserve) {
  auto p = take(GetParam().asked);
  EXPECT_EQ(GetParam().allocated, allocated());
  EXPECT_EQ(GetParam().reserved, reserved());
  EXPECT_EQ(static_cast<int64_t>(GetParam().asked), stats().requested_bytes[0].current);
}

TEST_F(Allocator, ZeroBytesAreNothing) {
  auto p = take(0);
  EXPECT_EQ(nullptr, p.get());
  EXPECT_EQ(0, reserved());
}

TEST_F(Allocator, SmallRemaindersSplitDownToOneGranule) {
  auto a = take(kMiB);
  auto b = take(kMiB - 512);
  EXPECT_EQ(2 * int64_t{kMiB} - 512, allocated());
  auto c = take(512);
  EXPECT_EQ(1, segments());
  EXPECT_EQ(2 * int64_t{kMiB}, allocated());
  auto d = take(1);
  EXPECT_EQ(2, segments());
}

TEST_F(Allocator, BestFitTakesTheSmallestAndThenTheLowestBlock) {
  auto a = take(40 * kMiB), b = take(30 * kMiB), c = take(30 * kMiB);
  const void *small_low = std::min(b.get(), c.get()), *small_high = std::max(b.get(), c.get());
  void* big = a.get();
  a.clear();
  b.clear();
  c.clear();
  auto first = take(30 * kMiB), second = take(30 * kMiB), third = take(30 * kMiB);
  EXPECT_EQ(small_low, first.get());
  EXPECT_EQ(small_high, second.get());
  EXPECT_EQ(big, third.get()) << "split";
  EXPECT_EQ(100 * int64_t{kMiB}, reserved());
}

TEST_F(Allocator, NeighboursMergeWhenFreed) {
  auto a = take(5 * kMiB), b = take(5 * kMiB), c = take(5 * kMiB);
  const void* begin = a.get();
  EXPECT_EQ(20 * int64_t{kMiB}, reserved());
  a.clear();
  c.clear();
  b.clear();
  auto all = take(20 * kMiB);
  EXPECT_EQ(begin, all.get());
  EXPECT_EQ(1, segments());
}

TEST_F(Allocator, EveryStreamHasItsOwnPool) {
  auto a = take(20 * kMiB);
  const void* place = a.get();
  a.clear();
  const auto side = c10::cuda::getStreamFromPool();
  {
    c10::cuda::CUDAStreamGuard guard(side);
    auto b = take(20 * kMiB);
    EXPECT_NE(place, b.get());
    EXPECT_EQ(40 * int64_t{kMiB}, reserved());
  }
  EXPECT_EQ(place, take(20 * kMiB).get());
}

TEST_F(Allocator, RecordStreamKeepsABlockActiveUntilTheStreamIsDone) {
  const auto side = c10::cuda::getStreamFromPool();
  auto a = take(20 * kMiB);
  const void* place = a.get();
  use(side);
  allocator::recordStream(a, side);
  a.clear();
  EXPECT_EQ(0, allocated());
  EXPECT_EQ(20 * int64_t{kMiB}, active());
  auto b = take(20 * kMiB);
  EXPECT_NE(place, b.get()) << "the side stream may still use it";
  side.synchronize();
  EXPECT_EQ(40 * int64_t{kMiB}, active()) << "no query yet";
  EXPECT_EQ(place, take(20 * kMiB).get()) << "the next allocation does";
}

TEST_F(Allocator, EventsAreLookedAtInOrder) {
  const auto slow = c10::cuda::getStreamFromPool();
  auto a = take(20 * kMiB), b = take(20 * kMiB);
  const auto record_and_free = [&](c10::DataPtr& p, const CUDAStream& s) {
    use(s);
    allocator::recordStream(p, s);
    p.clear();
  };
  const void *first = a.get(), *second = b.get();
  record_and_free(a, slow);
  at::cuda::CUDAEvent after_first;
  after_first.record(slow);
  record_and_free(b, slow);
  after_first.synchronize();
  EXPECT_EQ(first, take(20 * kMiB).get());
  EXPECT_EQ(40 * int64_t{kMiB}, reserved());
  auto c = take(20 * kMiB), d = take(20 * kMiB);
  EXPECT_NE(second, d.get()) << "still pending";
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

TEST_F(Allocator, BlocksAboveMaxSplitSizeAreNotSplit) {
  settings("max_split_size_mb:30");
  auto a = take(100 * kMiB);
  a.clear();
  auto b = take(25 * kMiB);
  EXPECT_EQ(126 * int64_t{kMiB}, reserved())
      << "100 are left alone for one of 25, which is rounded to 26";
  auto c = take(90 * kMiB);
  EXPECT_EQ(126 * int64_t{kMiB}, reserved()) << "taken whole: less than 20 MiB over";
  EXPECT_EQ(126 * int64_t{kMiB}, allocated());
  c.clear();
  auto d = take(79 * kMiB);
  EXPECT_EQ(206 * int64_t{kMiB}, reserved()) << "21 MiB would be wasted";
}

TEST_F(Allocator, SizesRoundUpToDivisionsOfAPowerOfTwo) {
  settings("roundup_power2_divisions:4");
  auto a = take(1200 << 10);
  EXPECT_EQ(1280 << 10, allocated());
}

TEST_F(Allocator, TheGarbageCollectorFreesOldBlocksAboveItsThreshold) {
  settings("garbage_collection_threshold:0.5");
  limit(1000 * kMiB);
  std::vector<c10::DataPtr> keep;
  for (int i = 0; i < 3; ++i) keep.push_back(take(200 * kMiB));
  keep.erase(keep.begin());
  EXPECT_EQ(600 * int64_t{kMiB}, reserved()) << "cached";
  auto next = take(300 * kMiB);
  EXPECT_EQ(700 * int64_t{kMiB}, reserved()) << "the cached 200 went before 300 came";
  EXPECT_EQ(0, stats().num_alloc_retries);
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
