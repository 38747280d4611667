// Numbers that were never computed: a copy to the host in mode shapes, a kernel in mode math. And
// how long an operator takes.
#include <cuda.h>

#include <array>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

constexpr char host_function = 0, host_spin = 0;

struct Refusals : Calibrated {
  static void SetUpTestSuite() {
    register_kernel(&host_function, "_Z7my_sortPfi");
    register_kernel(&host_spin, "_ZN2at4cuda12_GLOBAL__N_111spin_kernelEl");
  }
  void TearDown() override {
    tidemark_device_numbers_computed(0);
    Calibrated::TearDown();
  }

  const Memory memory_{2 * kMiB};
};

// holds: harness/virtual/README.md, Not modelled
TEST_F(Refusals, ACopyToTheHostOfBytesThatWereNotComputed) {
  std::vector<char> host(12345, 7);
  const auto before = tidemark_device_now();
  const std::string line = stderr_of([&] {
    EXPECT_EQ(cudaErrorNotSupported,
              cudaMemcpy(host.data(), memory_, host.size(), cudaMemcpyDeviceToHost));
  });
  EXPECT_NE(line.find("copy of 12345 bytes"), std::string::npos) << line;
  EXPECT_NE(line.find("TIDEMARK_UNKNOWN=nan"), std::string::npos) << line;
  EXPECT_EQ(1, std::count(line.begin(), line.end(), '\n')) << line;
  EXPECT_EQ(std::vector<char>(12345, 7), host) << "nothing was written";
  EXPECT_EQ(before, tidemark_device_now()) << "nothing was enqueued";
  EXPECT_EQ(cudaErrorNotSupported, cudaGetLastError());
  void* pinned = nullptr;
  CUDA(cudaHostAlloc(&pinned, 64, cudaHostAllocDefault));
  EXPECT_EQ(cudaErrorNotSupported, cudaMemcpyAsync(pinned, memory_, 64, cudaMemcpyDefault, 0));
  EXPECT_EQ(cudaErrorNotSupported,
            cudaMemcpy2D(host.data(), 8, memory_, 16, 8, 2, cudaMemcpyDeviceToHost));
  CUDA(cudaFreeHost(pinned));
  CUDA(cudaMemcpy(memory_, host.data(), 64, cudaMemcpyHostToDevice)) << "the other way";
  CUDA(cudaMemcpy(memory_ + 64, memory_, 64, cudaMemcpyDeviceToDevice));
}

TEST_F(Refusals, ACopyIsMadeWhereAnAnswerOrTheCallerSaysSo) {
  std::int64_t count = 0;
  tidemark_device_answer_reads(1, 42);
  CUDA(cudaMemcpy(&count, memory_, 8, cudaMemcpyDeviceToHost));
  tidemark_device_answer_reads(0, 0);
  EXPECT_EQ(42, count);
  std::array<std::int64_t, 2> pair{-1, -1};
  tidemark_device_answer_reads(1, 42);
  EXPECT_EQ(cudaErrorNotSupported, cudaMemcpy(pair.data(), memory_, 16, cudaMemcpyDeviceToHost));
  tidemark_device_answer_reads(2, 42);
  CUDA(cudaMemcpy(pair.data(), memory_, 16, cudaMemcpyDeviceToHost));
  tidemark_device_answer_reads(0, 0);
  EXPECT_EQ((std::array<std::int64_t, 2>{42, 0}), pair) << "of any size";
  EXPECT_FALSE(tidemark_device_accepts_unknown());
  tidemark_device_accept_unknown(1);
  CUDA(cudaMemcpy(&count, memory_, 8, cudaMemcpyDeviceToHost));
  tidemark_device_accept_unknown(-1);
  EXPECT_EQ(-1, count);
  EXPECT_EQ(cudaErrorNotSupported, cudaMemcpy(&count, memory_, 8, cudaMemcpyDeviceToHost));
}

TEST_F(Refusals, WithoutAValueAllOfPageableMemoryIsNaN) {
  std::vector<char> pageable(kMiB, 1);
  char* pinned = nullptr;
  CUDA(cudaHostAlloc(reinterpret_cast<void**>(&pinned), kMiB, cudaHostAllocDefault));
  pinned[65536] = 1;
  tidemark_device_accept_unknown(1);
  CUDA(cudaMemcpy(pageable.data(), memory_, kMiB, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(pinned, memory_, kMiB, cudaMemcpyDeviceToHost));
  tidemark_device_accept_unknown(-1);
  EXPECT_EQ(std::vector<char>(kMiB, '\xff'), pageable);
  EXPECT_EQ('\xff', pinned[65535]);
  EXPECT_EQ(1, pinned[65536]) << "offloaded gigabytes are not touched";
  CUDA(cudaFreeHost(pinned));
}

TEST_F(Refusals, AKernelWhereBytesAreReal) {
  CUDA(launch(&host_function)) << "shapes";
  tidemark_device_set_data(1);
  const std::string line =
      stderr_of([] { EXPECT_EQ(cudaErrorNotSupported, launch(&host_function)); });
  EXPECT_NE(line.find("kernel my_sort(float*, int) is launched"), std::string::npos) << line;
  EXPECT_NE(line.find("without the operator layer"), std::string::npos) << line;
  EXPECT_EQ(1, std::count(line.begin(), line.end(), '\n')) << line;
  tidemark_device_numbers_computed(1);
  const std::string other =
      stderr_of([] { EXPECT_EQ(cudaErrorNotSupported, launch(&host_function)); });
  EXPECT_NE(other.find("modes known and shapes run it"), std::string::npos) << other;
  EXPECT_EQ("", stderr_of([] { EXPECT_EQ(cudaErrorNotSupported, launch(&host_function)); }))
      << "once";

  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  EXPECT_EQ(cudaErrorNotSupported, cudaLaunchKernelExC(&config, &host_function, nullptr));
  EXPECT_EQ(cudaErrorNotSupported,
            cudaLaunchCooperativeKernel(&host_function, dim3(1), dim3(1), nullptr, 0, nullptr));
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, "an image"));
  ASSERT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "mine"));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
            cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr));

  tidemark_device_suspend_data(1);
  CUDA(launch(&host_function)) << "the operator layer computes";
  tidemark_device_suspend_data(-1);
  std::int64_t cycles = 1000;
  void* arguments[] = {&cycles};
  CUDA(launch(&host_spin, arguments)) << "it computes nothing on a GPU either";
}

TEST_F(Refusals, WhoDoesNotLookAtALaunchCannotReadItsResult) {
  tidemark_device_set_data(1);
  char back = 0;
  CUDA(cudaMemset(memory_, 5, 1));
  launch(&host_function);
  EXPECT_EQ(cudaErrorNotSupported, cudaMemcpy(&back, memory_, 1, cudaMemcpyDeviceToHost));
  cudaGetLastError();
  CUDA(cudaMemcpy(&back, memory_, 1, cudaMemcpyDeviceToHost)) << "seen";
  EXPECT_EQ(5, back);
  launch(&host_function);
  EXPECT_TRUE(tidemark_device_take_refusal());
  EXPECT_FALSE(tidemark_device_take_refusal());
}

TEST_F(Refusals, AnOperatorTakesTheTimeOfItsBytesForWhichTheHostWaitsToo) {
  tidemark_device_set_launch_cost(0);
  const auto operate = [&](bool wait, std::uint64_t bytes) {
    tidemark_device_reset_clock();
    tidemark_device_begin_operator("op");
    cudaLaunchKernel(&host_function, dim3(1 << 20), dim3(1024), nullptr, 0, nullptr);
    if (wait) cudaStreamSynchronize(nullptr);
    tidemark_device_end_operator(bytes);
    return tidemark_device_now();
  };
  EXPECT_NEAR(1'002'000, static_cast<double>(operate(true, 3350'000'000)), 10)
      << "the host waited for the bytes, too: a latency of 2 us, and 3.35 GB at 3350 GB/s";
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(nullptr));
  operate(false, 3350'000'000);
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(nullptr));
  // A blocking copy from pageable memory, as PyTorch's copy_ makes it: 3 x 64 bytes of tensors.
  std::vector<char> host(64);
  tidemark_device_begin_operator("copy_");
  cudaMemcpyAsync(memory_, host.data(), 64, cudaMemcpyHostToDevice, nullptr);
  cudaStreamSynchronize(nullptr);
  tidemark_device_end_operator(3 * 64);
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(nullptr));
  tidemark_device_reset_clock();
  CUDA(cudaLaunchKernel(&host_function, dim3(1 << 20), dim3(1024), nullptr, 0, nullptr));
  cudaDeviceSynchronize();
  EXPECT_GT(tidemark_device_now(), 10'000'000) << "outside: by the grid, 2^30 threads x 32 bytes";
}

}  // namespace
