// CUDA's error rules, launch checks, what is not modelled, properties.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

const char host_function = 0;

struct Errors : Calibrated {
  static void SetUpTestSuite() { register_kernel(&host_function, "_Z4workPfi"); }
  static std::string describe() { return text_of(tidemark_device_describe); }
};

TEST_F(Errors, NamesAndTextsAreCudas) {
  EXPECT_STREQ("cudaErrorMemoryAllocation", cudaGetErrorName(cudaErrorMemoryAllocation));
  EXPECT_STREQ("out of memory", cudaGetErrorString(cudaErrorMemoryAllocation));
  EXPECT_STREQ("no error", cudaGetErrorString(cudaSuccess));
  EXPECT_STREQ("an illegal memory access was encountered",
               cudaGetErrorString(cudaErrorIllegalAddress));
  EXPECT_STREQ("unrecognized error code", cudaGetErrorName(static_cast<cudaError_t>(12345)));
  const char* name = nullptr;
  EXPECT_EQ(CUDA_SUCCESS, cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
  EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", name);
}

TEST_F(Errors, EveryErrorOfTheHeaderHasItsNameAndAText) {
  std::ifstream header(CUDA_DRIVER_TYPES);  // "    cudaErrorInvalidValue    =     1,"
  int error_count = 0;
  for (std::string line; std::getline(header, line);) {
    char word[64] = {};
    int number = -1;
    if (std::sscanf(line.c_str(), " %63[A-Za-z0-9] = %d", word, &number) != 2) continue;
    const std::string name = word;
    if (!name.starts_with("cudaError") && name != "cudaSuccess") continue;
    if (name == "cudaErrorApiFailureBase") continue;
    ++error_count;
    const auto code = static_cast<cudaError_t>(number);
    EXPECT_EQ(name, cudaGetErrorName(code));
    EXPECT_STRNE("unrecognized error code", cudaGetErrorString(code)) << name;
  }
  EXPECT_GT(error_count, 130);
}

TEST_F(Errors, TheLastErrorIsTheThreadsAndPeekingKeepsIt) {
  EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(99));
  EXPECT_EQ(cudaErrorInvalidDevice, cudaPeekAtLastError());
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaPeekAtLastError(); }).join();
  EXPECT_EQ(cudaSuccess, elsewhere);
  int device = -1;
  CUDA(cudaGetDevice(&device));
  EXPECT_EQ(cudaErrorInvalidDevice, cudaGetLastError()) << "a success does not clear it";
  EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(Errors, BadLaunchesAreRefused) {
  const auto launch = [](dim3 grid, dim3 block, size_t shared = 0) {
    return cudaLaunchKernel(&host_function, grid, block, nullptr, shared, nullptr);
  };
  const auto before = tidemark_device_launches();
  EXPECT_EQ(cudaErrorInvalidConfiguration, launch(dim3(0), dim3(32)));
  EXPECT_EQ(cudaErrorInvalidConfiguration, launch(dim3(1), dim3(1025)));
  EXPECT_EQ(cudaErrorInvalidConfiguration, launch(dim3(1), dim3(1, 1, 65)));
  EXPECT_EQ(cudaErrorInvalidConfiguration, launch(dim3(1, 65536), dim3(32)));
  EXPECT_EQ(cudaErrorInvalidValue, launch(dim3(1), dim3(32), 100'000))
      << "shared memory was not opted in";
  EXPECT_EQ(cudaErrorInvalidDeviceFunction,
            cudaLaunchKernel(&before, dim3(1), dim3(1), nullptr, 0, nullptr));
  EXPECT_EQ(cudaErrorInvalidResourceHandle,
            cudaLaunchKernel(&host_function, dim3(1), dim3(1), nullptr, 0,
                             reinterpret_cast<cudaStream_t>(0x999990)));
  EXPECT_EQ(before, tidemark_device_launches());
  CUDA(cudaFuncSetAttribute(&host_function, cudaFuncAttributeMaxDynamicSharedMemorySize, 200'000));
  EXPECT_EQ(cudaSuccess, launch(dim3(1), dim3(32), 100'000));
  EXPECT_EQ(cudaErrorCooperativeLaunchTooLarge,
            cudaLaunchCooperativeKernel(&host_function, dim3(132 * 2 + 1), dim3(1024), nullptr, 0,
                                        nullptr));
}

TEST_F(Errors, LaunchesAreCountedByName) {
  EXPECT_EQ(std::string::npos, describe().find("work(float*, int)"));
  const auto before = tidemark_device_launches();
  for (int i = 0; i < 3; ++i)
    CUDA(cudaLaunchKernel(&host_function, dim3(1), dim3(32), nullptr, 0, nullptr));
  EXPECT_EQ(before + 3, tidemark_device_launches());
  EXPECT_NE(std::string::npos, describe().find("\"work(float*, int)\":3")) << describe();
}

TEST_F(Errors, OccupancyIsTheProfiles) {
  int blocks = 0;
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &host_function, 1024, 0));
  EXPECT_EQ(2, blocks) << "2048 threads a multiprocessor";
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &host_function, 32, 0));
  EXPECT_EQ(32, blocks) << "32 blocks a multiprocessor";
  CUDA(cudaFuncSetAttribute(&host_function, cudaFuncAttributeMaxDynamicSharedMemorySize, 100'000));
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &host_function, 128, 100'000));
  EXPECT_EQ(2, blocks) << "shared memory";
  cudaDeviceProp p;
  CUDA(cudaGetDeviceProperties(&p, 0));
  EXPECT_EQ(132, p.multiProcessorCount);
  EXPECT_EQ(9, p.major);
  EXPECT_STREQ("NVIDIA H100 80GB HBM3", p.name);
  EXPECT_EQ(size_t{85017493504}, p.totalGlobalMem) << "as on an H100";
  int gathers = 0;
  EXPECT_EQ(CUDA_SUCCESS, cuDeviceGetAttribute(&gathers, CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 0));
  EXPECT_EQ(1, gathers) << "a yes among the limits of textures";
  ASSERT_EQ(0, tidemark_device_set_profile("a100-40g"));
  CUDA(cudaGetDeviceProperties(&p, 0));
  EXPECT_EQ(108, p.multiProcessorCount);
  EXPECT_EQ(size_t{40960} << 20, p.totalGlobalMem);
  EXPECT_EQ(-1, tidemark_device_set_profile("tpu"));
  EXPECT_NE(nullptr, strstr(tidemark_device_error(), "h100-80g")) << "says which there are";
  ASSERT_EQ(0, tidemark_device_set_profile("h100-80g"));
}

TEST_F(Errors, UnmodelledCallsAreRefusedByName) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  CUDA(cudaStreamIsCapturing(nullptr, &status));
  EXPECT_EQ(cudaStreamCaptureStatusNone, status);
  const std::string text = stderr_of([] {
    cudaGraphConditionalHandle handle{};
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(cudaErrorNotSupported, cudaGraphConditionalHandleCreate(&handle, nullptr, 0, 0));
    cudaTextureObject_t texture{};
    EXPECT_EQ(cudaErrorNotSupported, cudaCreateTextureObject(&texture, nullptr, nullptr, nullptr));
  });
  EXPECT_NE(std::string::npos, text.find("cudaCreateTextureObject"));
  const char* const once = "cudaGraphConditionalHandleCreate";
  EXPECT_NE(std::string::npos, text.find(once));
  EXPECT_EQ(text.find(once), text.rfind(once)) << "once";
}

// Last: nothing works afterwards.
TEST_F(Errors, StickyErrorsStay) {
  EXPECT_EXIT(
      {
        tidemark::device::break_context(cudaErrorIllegalAddress);
        void* p = nullptr;
        const bool ok = cudaMalloc(&p, 1) == cudaErrorIllegalAddress &&
                        cudaGetLastError() == cudaErrorIllegalAddress &&
                        cudaGetLastError() == cudaErrorIllegalAddress &&
                        cudaDeviceSynchronize() == cudaErrorIllegalAddress;
        std::exit(ok ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
