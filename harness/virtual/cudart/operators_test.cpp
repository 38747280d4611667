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

TEST(Operators, ReadingANumberInShapesIsRefusedOrNoValue) {
  auto t = at::zeros({1}, at::TensorOptions().device(c10::kCUDA));
  EXPECT_THROW(t.item<float>(), c10::Error);
  EXPECT_THROW(t.to(at::kLong).cpu(), c10::Error);
  const auto before = tidemark_device_synchronisations();
  tidemark_device_accept_unknown(1);
  EXPECT_TRUE(std::isnan(t.item<float>()));
  tidemark_device_accept_unknown(-1);
  EXPECT_GT(tidemark_device_synchronisations(), before);
}

// Without the operator layer (numbers/), which computes what a kernel would.
TEST(Operators, MathWithoutTheOperatorLayerIsRefused) {
  auto options = at::TensorOptions().device(c10::kCUDA);
  tidemark_device_set_data(1);
  testing::internal::CaptureStderr();
  EXPECT_THROW(at::ones({3}, options), c10::Error);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("without the operator layer"), std::string::npos) << said;
  auto a = at::empty({4, 4}, options);
  EXPECT_THROW(at::mm(a, a), c10::Error) << "cuBLAS";
  const auto host = at::arange(3);
  EXPECT_TRUE(host.to(c10::kCUDA).cpu().equal(host)) << "a copy is no kernel";
  tidemark_device_set_data(0);
}

}  // namespace
