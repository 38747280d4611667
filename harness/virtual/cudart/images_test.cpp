// PyTorch's kernels on GPUs of compute capabilities that the wheel has no code of its own for: 8.9
// runs the code for 8.6, 7.0 none. The profile is the environment's (TIDEMARK_GPU, CMakeLists).
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "harness/virtual/operators/testing.h"

namespace at::cuda {
void clearCublasWorkspaces();  // CUDAContextLight.h, which includes cuBLAS's own headers
}

namespace {

using tidemark::operators::message;

struct Images : testing::Test {
  void SetUp() override {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
    capability = 10 * major + minor;
  }
  const at::TensorOptions cuda = at::TensorOptions().device(c10::kCUDA);
  int capability = 0;
};

// holds: harness/virtual/README.md, Compute capability
TEST_F(Images, KernelsThatAskForTheirCodesVersionRun) {
  const auto run = [&] {
    const auto x = at::ones({4096}, cuda), rows = at::ones({64, 8}, cuda).requires_grad_(true);
    const auto index = at::zeros({4096}, cuda.dtype(at::kLong));
    std::get<0>(x.sort());
    x.argsort();
    std::get<0>(x.topk(5));
    x.cumsum(0);
    x.index({index});
    at::zeros({64, 8}, cuda).index_put_({index}, at::ones({4096, 8}, cuda), true);
    at::embedding(rows, index).sum().backward();
    at::mm(at::ones({64, 64}, cuda), at::ones({64, 64}, cuda));
  };
  if (capability >= 75) return run();
  const auto x = at::empty({4096}, cuda);
  for (const std::function<void()>& call :
       {std::function<void()>(run), {[&] { x.add_(1); }}, {[&] { x.sort(); }}}) {
    const std::string why = message(call);
    EXPECT_NE(why.find("no kernel image is available for execution on the device"),
              std::string::npos)
        << why;
  }
}

// PyTorch decides by the capability: 2 x 4096 and 8 x 16 KiB before Hopper, 8 x 4096 on it.
TEST_F(Images, TheWorkspaceOfCublasIsThatOfTheCapability) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const auto a = at::empty({64, 64}, cuda);
  at::mm(a, a);
  const auto before = allocator::getDeviceStats(0).allocated_bytes[0].current;
  at::cuda::clearCublasWorkspaces();
  const auto freed = before - allocator::getDeviceStats(0).allocated_bytes[0].current;
  EXPECT_EQ(freed, capability / 10 == 9 ? 33'554'432 : 8'519'680);
}

}  // namespace
