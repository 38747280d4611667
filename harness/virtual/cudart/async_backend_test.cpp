// PyTorch's other allocator, backend:cudaMallocAsync, on the stream-ordered pools. Chosen by the
// environment (CMakeLists).
#include <gtest/gtest.h>

#include "harness/virtual/device/testing.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

using tidemark::device::testing::kMiB;

struct AsyncBackend : testing::Test {
  void SetUp() override {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    ASSERT_EQ("cudaMallocAsync", allocator::get()->name());
    ASSERT_EQ(0, tidemark_device_set_schedule("lagging"));
    ASSERT_EQ(0, tidemark_device_set_capacity(1024 * kMiB));
  }
  void TearDown() override {
    c10::cuda::device_synchronize();
    allocator::emptyCache();
  }
  static int64_t reserved() { return allocator::getDeviceStats(0).reserved_bytes[0].current; }
  static int64_t allocated() { return allocator::getDeviceStats(0).allocated_bytes[0].current; }
};

TEST_F(AsyncBackend, ReservesFromThePoolAndKeepsItAcrossSynchronisations) {
  {
    auto a = allocator::get()->allocate(100 * kMiB);
    EXPECT_EQ(100 * int64_t{kMiB}, allocated());
    EXPECT_EQ(100 * int64_t{kMiB}, reserved());
  }
  c10::cuda::device_synchronize();
  EXPECT_EQ(0, allocated());
  EXPECT_EQ(100 * int64_t{kMiB}, reserved()) << "PyTorch sets the release threshold to the maximum";
  allocator::emptyCache();
  EXPECT_EQ(0, reserved());
}

TEST_F(AsyncBackend, OperatorsRunOnIt) {
  auto a = at::ones({256, 256}, at::TensorOptions().device(c10::kCUDA)).requires_grad_(true);
  at::mm(a, a).sum().backward();
  EXPECT_TRUE(a.grad().defined());
}

}  // namespace
