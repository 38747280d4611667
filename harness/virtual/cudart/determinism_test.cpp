// A training step leaves the same trace of allocations, addresses included, and the same clock
// whatever the address space looks like: this binary runs itself with and without randomisation and
// compares what it prints.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/rerun.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

void print_program() {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  allocator::recordHistory(true, nullptr, 1'000'000, allocator::RecordContext::NEVER, false, {});
  tidemark_device_set_schedule("calibrated");
  const auto side = c10::cuda::getStreamFromPool();
  auto w = at::randn({512, 512}, at::TensorOptions().device(c10::kCUDA)).requires_grad_(true);
  for (int i = 0; i < 4; ++i) {
    auto x = at::randn({64 + i, 512}, w.options()).detach();
    auto y = at::mm(at::gelu(at::mm(x, w)), w);
    {
      c10::cuda::CUDAStreamGuard guard(side);
      auto z = y.detach().mul(2);
      y.record_stream(side);
    }
    y.sum().backward();
  }
  for (const auto& traces : allocator::snapshot().device_traces) {
    for (const auto& t : traces) {
      std::printf("%d %" PRIx64 " %zu %p\n", static_cast<int>(t.action_),
                  static_cast<uint64_t>(t.addr_), t.size_, static_cast<void*>(t.stream_));
    }
  }
  std::printf("%" PRId64 " %" PRIu64 "\n", tidemark_device_now(), tidemark_device_launches());
}

const auto* const child =
    testing::AddGlobalTestEnvironment(new tidemark::device::testing::Rerun(print_program));

TEST(TorchDeterminism, AllocatorTracesAreIdenticalUnderDifferentAddressLayouts) {
  using tidemark::device::testing::run_self;
  ASSERT_NE(nullptr, child);
  const std::string first = run_self("random"), second = run_self("random"),
                    fixed = run_self("fixed");
  EXPECT_GT(std::count(first.begin(), first.end(), '\n'), 50);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, fixed);
}

}  // namespace
