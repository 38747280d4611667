// PyTorch's own CUDA code runs on the platform: allocation, operators, autograd, streams.
#include <gtest/gtest.h>

#include "harness/virtual/device/control.h"

namespace {

TEST(Operators, ForwardAndBackwardLaunchKernels) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  auto options = at::TensorOptions().device(c10::kCUDA);
  const auto before = tidemark_device_launches();
  auto a = at::empty({64, 64}, options).requires_grad_(true);
  auto b = at::mm(a, a).relu().sum();
  b.backward();
  EXPECT_GT(tidemark_device_launches(), before + 4);
  EXPECT_TRUE(a.grad().defined());
}

TEST(Operators, OneMebibyteReadsExactly) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  allocator::emptyCache();
  const auto current = [] { return allocator::getDeviceStats(0).allocated_bytes[0].current; };
  const auto before = current();
  auto t = at::empty({1 << 20}, at::TensorOptions().device(c10::kCUDA).dtype(c10::kByte));
  EXPECT_EQ(current() - before, 1'048'576);
}

TEST(Operators, ReadingANumberInShapesIsNoValue) {
  auto t = at::zeros({1}, at::TensorOptions().device(c10::kCUDA));
  const auto before = tidemark_device_synchronisations();
  EXPECT_TRUE(std::isnan(t.item<float>()));
  EXPECT_GT(tidemark_device_synchronisations(), before);
}

}  // namespace
