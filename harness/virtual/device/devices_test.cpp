// Several devices in one process: each has its memory and streams; copies and events cross.
#include <cuda.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

const bool three = setenv("TIDEMARK_DEVICES", "3", 1) == 0;  // before the first call

struct Devices : Calibrated {};

TEST_F(Devices, AreCountedAndNamedApart) {
  int count = 0;
  CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(3, count);
  EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(3));
  cudaDeviceProp a, b;
  CUDA(cudaGetDeviceProperties(&a, 0));
  CUDA(cudaGetDeviceProperties(&b, 2));
  EXPECT_NE(a.pciBusID, b.pciBusID);
  EXPECT_NE(a.uuid.bytes[15], b.uuid.bytes[15]);
  int can = -1;
  CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(1, can);
  CUDA(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  CUDA(cudaDeviceDisablePeerAccess(1));
}

TEST_F(Devices, ArePeersOnlyWhereTheGpuHasPeerAccess) {
  int can = -1, attribute = -1;
  CUDA(cudaDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(0, can) << "no device is its own peer";
  EXPECT_EQ(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, 3));
  CUDA(cudaDeviceGetP2PAttribute(&attribute, cudaDevP2PAttrAccessSupported, 0, 1));
  EXPECT_EQ(1, attribute);
  EXPECT_EQ(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(2));
  EXPECT_EQ(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));

  ASSERT_EQ(0, tidemark_device_set_profile("rtx4090-24g")) << tidemark_device_error();
  CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(0, can);
  EXPECT_EQ(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(1, 0));
  {
    const Memory a(64);
    CUDA(cudaSetDevice(1));
    const Memory b(64);
    CUDA(cudaMemcpyPeer(b, 1, a, 0, 64));  // through the host
    EXPECT_EQ(cudaErrorInvalidDevice, cudaMemcpyPeer(b, 3, a, 0, 64));
  }
  ASSERT_EQ(0, tidemark_device_set_profile("h100-80g")) << tidemark_device_error();
}

TEST_F(Devices, TheDriverSharesPeersWithTheRuntime) {
  CUcontext peer = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&peer, 1));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxEnablePeerAccess(peer, 0));
  EXPECT_EQ(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxDisablePeerAccess(peer));
  EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(peer));
}

TEST_F(Devices, TheCurrentDeviceIsTheThreads) {
  CUDA(cudaSetDevice(2));
  int elsewhere = -1, here = -1;
  std::thread([&] { cudaGetDevice(&elsewhere); }).join();
  CUDA(cudaGetDevice(&here));
  EXPECT_EQ(0, elsewhere);
  EXPECT_EQ(2, here);
}

TEST_F(Devices, EachHasItsOwnMemory) {
  const Memory a(kMiB);  // freed while device 1 is the current one
  CUDA(cudaSetDevice(1));
  size_t before = 0, left = 0, total = 0;
  CUDA(cudaMemGetInfo(&before, &total));
  const Memory b(kMiB);
  cudaPointerAttributes attributes = {};
  CUDA(cudaPointerGetAttributes(&attributes, a));
  EXPECT_EQ(0, attributes.device);
  CUDA(cudaPointerGetAttributes(&attributes, b));
  EXPECT_EQ(1, attributes.device);
  CUDA(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(2 * kMiB, before - left);
}

TEST_F(Devices, CopiesCross) {
  tidemark_device_set_data(1);
  const Memory a(64);
  CUDA(cudaSetDevice(1));
  const Memory b(64);
  std::vector<char> out(64);
  CUDA(cudaMemset(a, 3, 64));
  CUDA(cudaMemcpyPeerAsync(b, 1, a, 0, 64, make_stream()));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaMemcpy(out.data(), b, 64, cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::vector<char>(64, 3), out);
}

TEST_F(Devices, EventsAreWaitedForAcrossAndRecordedAtHome) {
  const cudaStream_t here = make_stream();
  const cudaEvent_t event = make_event();
  CUDA(cudaSetDevice(1));
  const cudaStream_t there = make_stream();
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaEventRecord(event, there));
  run(here, 1'000'000'000);
  CUDA(cudaEventRecord(event, here));
  CUDA(cudaStreamWaitEvent(there, event, 0));
  CUDA(cudaDeviceSynchronize());  // device 1
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(here)) << "device 1 waited for it";
  run(here, 1'000'000'000);
  CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(here)) << "device 0 is another";
  run(nullptr, 5);
  int device = -1;
  CUDA(cudaStreamGetDevice(nullptr, &device));
  EXPECT_EQ(1, device) << "the default stream is the current device's";
}

}  // namespace
