// Device memory: capacity, addresses, virtual memory management, stream-ordered pools, pinned
// memory.
#include <cuda.h>

#include <cstring>
#include <optional>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

struct DeviceMemory : Calibrated {
  void SetUp() override {
    Calibrated::SetUp();
    tidemark_device_accept_unknown(1);
    ASSERT_EQ(0, tidemark_device_set_capacity(1024 * kMiB));
  }
  void TearDown() override {
    tidemark_device_accept_unknown(-1);
    EXPECT_EQ(0u, used()) << "a test left memory behind";
    EXPECT_EQ(0, tidemark_device_set_capacity(0));
    Calibrated::TearDown();
  }
  static size_t used() {
    size_t left = 0, total = 0;
    EXPECT_EQ(cudaSuccess, cudaMemGetInfo(&left, &total));
    return total - left;
  }
};

TEST_F(DeviceMemory, CountsGranulesAndFailsAtCapacity) {
  const Memory a(1);
  EXPECT_EQ(2 * kMiB, used());
  const Memory b(2 * kMiB + 1);
  EXPECT_EQ(6 * kMiB, used());
  void* big = reinterpret_cast<void*>(1);
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&big, 1018 * kMiB + 1));
  EXPECT_EQ(nullptr, big);
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaGetLastError());
  EXPECT_EQ(cudaSuccess, cudaGetLastError()) << "reading it forgets it";
  const Memory rest(1018 * kMiB);
  EXPECT_EQ(1024 * kMiB, used());
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&big, ~size_t{0})) << "no overflow";
}

TEST_F(DeviceMemory, FreeRefusesAPointerThatIsNoAllocation) {
  void* a = nullptr;
  CUDA(cudaMalloc(&a, 4 * kMiB));
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(static_cast<char*>(a) + 512));
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(&a)) << "on the stack";
  CUDA(cudaFree(a));
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(a)) << "twice";
  CUDA(cudaFree(nullptr));
}

TEST_F(DeviceMemory, FreeSynchronisesTheDevice) {
  const cudaStream_t s = make_stream();
  {
    const Memory a(kMiB);
    run(s, 1'000'000'000);
  }
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(s));
  EXPECT_GE(tidemark_device_now(), 1'000'000'000);
}

TEST_F(DeviceMemory, CapacityCannotFallBelowTheUsedBytes) {
  const Memory a(8 * kMiB);
  EXPECT_EQ(-1, tidemark_device_set_capacity(4 * kMiB));
  EXPECT_NE(nullptr, strstr(tidemark_device_error(), "8388608"));
  EXPECT_EQ(-1, tidemark_device_set_profile("a100-40g"));
}

TEST_F(DeviceMemory, CopiesMoveOnlyWhereDataMoves) {
  const Memory d(kMiB);
  std::vector<char> out(1000, 1), in(1000, 7);
  CUDA(cudaMemcpy(d, in.data(), in.size(), cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(out.data(), d, out.size(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(std::vector<char>(1000, '\xff'), out) << "shapes: no value";
  tidemark_device_set_data(1);
  CUDA(cudaMemset(d, 5, 1000));
  CUDA(cudaMemcpy(d + 10, in.data(), 3, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy2D(out.data(), 10, d, 100, 10, 10, cudaMemcpyDefault));
  EXPECT_EQ(5, out[0]);
  CUDA(cudaMemcpy(out.data(), d, out.size(), cudaMemcpyDefault));
  EXPECT_EQ(5, out[9]);
  EXPECT_EQ(7, out[10]);
  EXPECT_EQ(5, out[13]);
  tidemark_device_suspend_data(1);
  CUDA(cudaMemset(d, 6, 1000));
  tidemark_device_suspend_data(-1);
  CUDA(cudaMemcpy(out.data(), d, 1, cudaMemcpyDefault));
  EXPECT_EQ(5, out[0]) << "suspended";
}

TEST_F(DeviceMemory, BoxesAndBatchesAreCopiedElementByElement) {
  tidemark_device_set_data(1);
  const Memory d(64);
  std::vector<char> in(27), out(27, 0);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(i);
  cudaMemcpy3DParms box =
      {};  // the 2 x 2 x 2 corner (1, 1, 1) of a cube of 3, to the origin of one of 4
  box.srcPtr = {in.data(), 3, 3, 3};
  box.srcPos = {1, 1, 1};
  box.dstPtr = {d.at, 4, 4, 4};
  box.extent = {2, 2, 2};
  box.kind = cudaMemcpyHostToDevice;
  CUDA(cudaMemset(d, 0, 64));
  CUDA(cudaMemcpy3D(&box));
  std::vector<char> cube(64);
  CUDA(cudaMemcpy(cube.data(), d, 64, cudaMemcpyDefault));
  EXPECT_EQ(13, cube[0]);
  EXPECT_EQ(14, cube[1]);
  EXPECT_EQ(0, cube[2]);
  EXPECT_EQ(16, cube[4]);
  EXPECT_EQ(26, cube[16 + 4 + 1]);

  void* to[] = {out.data(), out.data() + 10};
  const void* from[] = {d.at, d + 16};
  const size_t bytes[] = {2, 1};
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t start = 0;
  EXPECT_EQ(cudaErrorInvalidValue,
            cudaMemcpyBatchAsync(to, from, bytes, 2, &attributes, &start, 1, nullptr));
  CUDA(cudaMemcpyBatchAsync(to, from, bytes, 2, &attributes, &start, 1, make_stream()));
  EXPECT_EQ(13, out[0]);
  EXPECT_EQ(14, out[1]);
  EXPECT_EQ(22, out[10]);
}

TEST_F(DeviceMemory, CopiesStayInsideTheirAllocation) {
  const Memory d(2 * kMiB);
  std::optional<Memory> next(2 * kMiB);
  std::vector<char> host(64);
  EXPECT_EQ(cudaErrorInvalidValue,
            cudaMemcpy(d + 2 * kMiB - 8, host.data(), 64, cudaMemcpyHostToDevice));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(d, host.data(), 64, cudaMemcpyDeviceToHost))
      << "direction";
  EXPECT_EQ(cudaErrorInvalidPitchValue,
            cudaMemcpy2D(d, 4, host.data(), 8, 8, 2, cudaMemcpyDefault));
  void* const freed = next->at;
  next.reset();
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(freed, host.data(), 64, cudaMemcpyHostToDevice))
      << "freed";
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemset(host.data(), 0, 64)) << "pageable memory";
}

TEST_F(DeviceMemory, DownloadsToPageableMemoryWaitAndToPinnedDoNot) {
  const Memory d(kMiB);
  void* pinned = nullptr;
  CUDA(cudaHostAlloc(&pinned, kMiB, cudaHostAllocDefault));
  std::vector<char> pageable(kMiB);
  const cudaStream_t s = make_stream();
  run(s, 1'000'000'000);
  CUDA(cudaMemcpyAsync(pinned, d, kMiB, cudaMemcpyDeviceToHost, s));
  CUDA(cudaMemcpyAsync(d, pageable.data(), kMiB, cudaMemcpyHostToDevice, s));
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(s));
  CUDA(cudaMemcpyAsync(pageable.data(), d, kMiB, cudaMemcpyDeviceToHost, s));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(s));
  CUDA(cudaFreeHost(pinned));
}

TEST_F(DeviceMemory, PointersSayWhatTheyAre) {
  const Memory d(2 * kMiB);
  void* pinned = nullptr;
  CUDA(cudaMallocHost(&pinned, 100));
  int local = 0;
  cudaPointerAttributes a = {};
  CUDA(cudaPointerGetAttributes(&a, d + 100));
  EXPECT_EQ(cudaMemoryTypeDevice, a.type);
  EXPECT_EQ(0, a.device);
  CUDA(cudaPointerGetAttributes(&a, pinned));
  EXPECT_EQ(cudaMemoryTypeHost, a.type);
  EXPECT_EQ(pinned, a.devicePointer);
  CUDA(cudaPointerGetAttributes(&a, &local));
  EXPECT_EQ(cudaMemoryTypeUnregistered, a.type);
  CUDA(cudaHostRegister(&local, sizeof local, 0));
  EXPECT_EQ(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(&local, sizeof local, 0));
  CUDA(cudaHostUnregister(&local));
  EXPECT_EQ(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(&local));
  CUDA(cudaFreeHost(pinned));
}

TEST_F(DeviceMemory, VirtualMemoryIsCountedWhileItExistsAndReadableWhenAccessIsSet) {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUdeviceptr begin = 0;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAddressReserve(&begin, 8 * kMiB, 0, 0, 0));
  CUmemGenericAllocationHandle a = 0, b = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&a, kMiB, &p, 0))
      << "not a multiple of the granularity";
  ASSERT_EQ(CUDA_SUCCESS, cuMemCreate(&a, 2 * kMiB, &p, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuMemCreate(&b, 4 * kMiB, &p, 0));
  EXPECT_EQ(6 * kMiB, used());
  CUmemGenericAllocationHandle none = 0;
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&none, 1020 * kMiB, &p, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuMemMap(begin, 2 * kMiB, 0, a, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuMemMap(begin + 2 * kMiB, 4 * kMiB, 0, b, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMap(begin + 4 * kMiB, 2 * kMiB, 0, a, 0))
      << "mapped already";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemMap(begin + 6 * kMiB, 4 * kMiB, 0, b, 0))
      << "beyond the reservation";

  tidemark_device_set_data(1);
  auto* memory = reinterpret_cast<char*>(begin);
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemset(memory, 1, 16)) << "no access yet";
  CUmemAccessDesc access = {p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(CUDA_SUCCESS, cuMemSetAccess(begin, 6 * kMiB, &access, 1));
  CUDA(cudaMemset(memory + 2 * kMiB - 8, 9, 16)) << "across both mappings";
  char back = 0;
  CUDA(cudaMemcpy(&back, memory + 2 * kMiB + 7, 1, cudaMemcpyDefault));
  EXPECT_EQ(9, back);
  cudaPointerAttributes attributes = {};
  CUDA(cudaPointerGetAttributes(&attributes, memory + 3 * kMiB));
  EXPECT_EQ(cudaMemoryTypeDevice, attributes.type);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(begin, kMiB)) << "part of a mapping";

  ASSERT_EQ(CUDA_SUCCESS, cuMemUnmap(begin, 2 * kMiB));
  EXPECT_EQ(6 * kMiB, used()) << "unmapped, not released";
  ASSERT_EQ(CUDA_SUCCESS, cuMemMap(begin + 6 * kMiB, 2 * kMiB, 0, a, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuMemSetAccess(begin + 6 * kMiB, 2 * kMiB, &access, 1));
  CUDA(cudaMemcpy(&back, memory + 8 * kMiB - 8, 1, cudaMemcpyDefault));
  EXPECT_EQ(9, back) << "physical memory keeps its content";
  ASSERT_EQ(CUDA_SUCCESS, cuMemRelease(a));
  EXPECT_EQ(6 * kMiB, used()) << "released, still mapped";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(begin, 8 * kMiB)) << "something is mapped";
  ASSERT_EQ(CUDA_SUCCESS, cuMemUnmap(begin + 2 * kMiB, 6 * kMiB));
  EXPECT_EQ(4 * kMiB, used());
  ASSERT_EQ(CUDA_SUCCESS, cuMemRelease(b));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemRelease(b));
  ASSERT_EQ(CUDA_SUCCESS, cuMemAddressFree(begin, 8 * kMiB));
}

// Both sides read and write it, and it takes nothing of the device.
TEST_F(DeviceMemory, ManagedMemoryIsOnTheHost) {
  std::size_t before = 0, after = 0, total = 0;
  CUDA(cudaMemGetInfo(&before, &total));
  int* numbers = nullptr;
  CUDA(cudaMallocManaged(reinterpret_cast<void**>(&numbers), kMiB, cudaMemAttachGlobal));
  CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  numbers[7] = 3;
  cudaPointerAttributes attributes;
  CUDA(cudaPointerGetAttributes(&attributes, numbers + 7));
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes.devicePointer, attributes.hostPointer);
  const cudaMemLocation here{.type = cudaMemLocationTypeDevice, .id = 0},
      nowhere{.type = cudaMemLocationTypeDevice, .id = 9};
  CUDA(cudaMemAdvise(numbers, kMiB, cudaMemAdviseSetPreferredLocation, here));
  CUDA(cudaMemPrefetchAsync(numbers, kMiB, here, 0, nullptr));
  EXPECT_EQ(cudaMemPrefetchAsync(numbers, kMiB, nowhere, 0, nullptr), cudaErrorInvalidDevice);
  CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(numbers[7], 3);
  EXPECT_EQ(cudaFreeHost(numbers), cudaErrorInvalidValue);
  CUDA(cudaFree(numbers));
  EXPECT_EQ(cudaMemAdvise(numbers, kMiB, cudaMemAdviseSetReadMostly, here), cudaErrorInvalidValue);
  void* none = nullptr;
  EXPECT_EQ(cudaMallocManaged(&none, kMiB, 5), cudaErrorInvalidValue);
}

}  // namespace
