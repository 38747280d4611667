// Tools of the tests of the virtual device: kernels without nvcc, and CUDA calls that must succeed.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/names.h"

// Functions that nvcc's generated code calls.
extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
void __cudaUnregisterFatBinary(void**);
}

#define CUDA(expression) ASSERT_EQ(cudaSuccess, (expression)) << #expression

namespace tidemark::device::testing {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Device memory of a test.
struct Memory {
  explicit Memory(std::size_t bytes) { EXPECT_EQ(cudaSuccess, cudaMalloc(&at, bytes)); }
  ~Memory() { EXPECT_EQ(cudaSuccess, cudaFree(at)); }
  Memory(const Memory&) = delete;
  operator char*() const { return static_cast<char*>(at); }
  void* at = nullptr;
};

/// Makes `function` the kernel `name` (mangled), with code for every GPU or that of a fat binary,
/// whose handle it returns.
inline void** register_kernel(const char* function, const char* name, void* code = nullptr) {
  void** const handle = __cudaRegisterFatBinary(code);
  __cudaRegisterFunction(handle, function, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  return handle;
}
inline cudaError_t launch(const char* function, void** arguments = nullptr) {
  return cudaLaunchKernel(function, dim3(1), dim3(1), arguments, 0, nullptr);
}

/// Returns the text that `call` writes to stderr.
template <class Call>
std::string stderr_of(Call call) {
  ::testing::internal::CaptureStderr();
  call();
  return ::testing::internal::GetCapturedStderr();
}

/// One operation of this length.
inline void run(cudaStream_t stream, Ns duration, std::string_view name = "work") {
  const Ns start = begin_collective(stream);
  end_collective(stream, name, start, start + duration);
}

/// Returns the entries of the trace so far, without waits.
inline std::vector<tidemark_span> traced() {
  std::vector<tidemark_span> spans(tidemark_device_spans(nullptr, 0));
  spans.resize(tidemark_device_spans(spans.data(), spans.size()));
  std::erase_if(spans, [](const tidemark_span& one) { return one.kind == TIDEMARK_SPAN_WAIT; });
  return spans;
}

using device::text_of;

inline cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaSuccess, cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

inline cudaEvent_t make_event(unsigned flags = 0) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaSuccess, cudaEventCreateWithFlags(&event, flags));
  return event;
}

inline void schedule(const char* name) {
  ASSERT_EQ(0, tidemark_device_set_schedule(name)) << tidemark_device_error();
  tidemark_device_reset_clock();
}

/// A test on the schedule calibrated, after which the device is as before.
struct Calibrated : ::testing::Test {
  void SetUp() override { schedule("calibrated"); }
  void TearDown() override {
    tidemark_device_set_data(0);
    tidemark_device_set_launch_cost(-1);
    cudaSetDevice(0);
    cudaGetLastError();
  }
};

/// Every test that is instantiated with kSchedules runs in all three.
struct EachSchedule : ::testing::TestWithParam<const char*> {
  void SetUp() override { schedule(GetParam()); }
  void TearDown() override {
    cudaDeviceSynchronize();
    cudaGetLastError();
  }
  bool instant() const { return std::string_view(GetParam()) == "instant"; }
  bool lagging() const { return std::string_view(GetParam()) == "lagging"; }
};
inline const auto kSchedules = ::testing::Values("instant", "calibrated", "lagging");
inline std::string schedule_name(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

}  // namespace tidemark::device::testing
