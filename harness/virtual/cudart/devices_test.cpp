// PyTorch with two devices in one process (TIDEMARK_DEVICES, set in CMakeLists).
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "harness/virtual/device/control.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct TorchDevices : testing::Test {
  void SetUp() override {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    tidemark_device_set_data(1);
  }
  void TearDown() override { tidemark_device_set_data(0); }
  static at::TensorOptions on(c10::DeviceIndex d) {
    return at::TensorOptions().device(c10::Device(c10::kCUDA, d));
  }
  static int64_t allocated(c10::DeviceIndex d) {
    return allocator::getDeviceStats(d).allocated_bytes[0].current;
  }
};

TEST_F(TorchDevices, EachHasItsOwnAllocator) {
  ASSERT_EQ(2, c10::cuda::device_count());
  const auto before = allocated(0);
  auto t = at::empty({1 << 20}, on(1));
  EXPECT_EQ(before, allocated(0));
  EXPECT_EQ(4 << 20, allocated(1));
  EXPECT_EQ(1, t.device().index());
}

TEST_F(TorchDevices, TensorsTravelWithTheirNumbers) {
  const auto there =
      at::arange(1000, at::kFloat).to(c10::Device(c10::kCUDA, 0)).to(c10::Device(c10::kCUDA, 1));
  EXPECT_EQ(1, there.device().index());
  EXPECT_TRUE(there.cpu().equal(at::arange(1000, at::kFloat)));
}

TEST_F(TorchDevices, MixingDevicesIsPyTorchsError) {
  EXPECT_THROW(at::empty({4}, on(0)).add(at::empty({4}, on(1))), c10::Error);
}

}  // namespace
