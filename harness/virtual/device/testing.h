// Tools of the tests of the virtual device: kernels without nvcc, and CUDA calls that must succeed.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/device.h"

#define CUDA(expression) ASSERT_EQ(cudaSuccess, (expression)) << #expression

namespace tidemark::device::testing {

/// One operation of this length.
inline void run(cudaStream_t stream, Ns duration) { enqueue_for(stream, "work", duration); }

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
