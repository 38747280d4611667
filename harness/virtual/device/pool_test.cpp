// Stream-ordered allocation: who may reuse what, and when memory goes back.
#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

constexpr size_t kBlock = 32 * kMiB;  // as much as a pool reserves at a time

struct Pools : EachSchedule {
  cudaMemPool_t pool = nullptr;
  cudaStream_t a = make_stream(), b = make_stream();

  void SetUp() override {
    EachSchedule::SetUp();
    ASSERT_EQ(0, tidemark_device_set_capacity(64 * kMiB));
    cudaMemPoolProps p = {};
    p.allocType = cudaMemAllocationTypePinned;
    p.location = {cudaMemLocationTypeDevice, 0};
    CUDA(cudaMemPoolCreate(&pool, &p));
    keep(~std::uint64_t{0});
  }
  void TearDown() override {
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemPoolDestroy(pool));
    EXPECT_EQ(0, tidemark_device_set_capacity(0));
    EachSchedule::TearDown();
  }
  void keep(std::uint64_t bytes) {
    CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
  }
  std::uint64_t read(cudaMemPoolAttr attribute) {
    std::uint64_t value = 0;
    EXPECT_EQ(cudaSuccess, cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
  }
  void* take(cudaStream_t s, size_t bytes = kBlock) {
    void* p = nullptr;
    EXPECT_EQ(cudaSuccess, cudaMallocFromPoolAsync(&p, bytes, pool, s));
    return p;
  }
  void set(cudaMemPoolAttr attribute, int value) {
    CUDA(cudaMemPoolSetAttribute(pool, attribute, &value));
  }
};
INSTANTIATE_TEST_SUITE_P(All, Pools, kSchedules, schedule_name);

TEST_P(Pools, TheFreeingStreamReusesAtOnce) {
  void* p = take(a);
  run(a, 1'000'000'000);
  CUDA(cudaFreeAsync(p, a));
  EXPECT_EQ(p, take(a));
  CUDA(cudaFreeAsync(p, a));
}

TEST_P(Pools, AnotherStreamReusesFinishedBlocksElseGetsFreshMemory) {
  void* p = take(a);
  run(a, 1'000'000'000);
  CUDA(cudaFreeAsync(p, a));
  void* q = take(b);
  EXPECT_EQ(instant(), p == q);
  EXPECT_EQ(instant() ? kBlock : 2 * kBlock, read(cudaMemPoolAttrReservedMemCurrent));
  CUDA(cudaFreeAsync(q, b));
}

TEST_P(Pools, AnOrderedStreamReusesAndTheSwitchForbidsIt) {
  set(cudaMemPoolReuseAllowOpportunistic, 0);
  const cudaEvent_t e = make_event();
  void* p = take(a);
  run(a, 1'000'000'000);
  CUDA(cudaFreeAsync(p, a));
  CUDA(cudaEventRecord(e, a));
  CUDA(cudaStreamWaitEvent(b, e, 0));
  set(cudaMemPoolReuseFollowEventDependencies, 0);
  void* fresh = take(b);
  EXPECT_NE(p, fresh);
  set(cudaMemPoolReuseFollowEventDependencies, 1);
  EXPECT_EQ(p, take(b));
  CUDA(cudaFreeAsync(p, b));
  CUDA(cudaFreeAsync(fresh, b));
}

TEST_P(Pools, AtCapacityTheStreamIsMadeToWaitRatherThanToFail) {
  set(cudaMemPoolReuseAllowOpportunistic, 0);
  void* p = take(a);
  void* q = take(a);
  run(a, 1'000'000'000);
  CUDA(cudaFreeAsync(p, a));
  set(cudaMemPoolReuseAllowInternalDependencies, 0);
  void* none = nullptr;
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&none, 2 * kBlock, pool, b));
  set(cudaMemPoolReuseAllowInternalDependencies, 1);
  void* again = take(b);
  CUDA(cudaStreamSynchronize(b));
  // Instant: a's work is done, so the block went back to the device and came anew, at any address;
  // there is nothing to wait for.
  EXPECT_TRUE(instant() || p == again);
  EXPECT_EQ(!instant(), tidemark_device_now() >= 1'000'000'000) << "b waits for a's work";
  CUDA(cudaFreeAsync(again, b));
  CUDA(cudaFreeAsync(q, b));
}

TEST_P(Pools, SynchronisingReturnsMemoryAboveTheThreshold) {
  void* p = take(a);
  void* q = take(a);
  keep(kBlock);
  CUDA(cudaFreeAsync(p, a));
  CUDA(cudaFreeAsync(q, a));
  EXPECT_EQ(2 * kBlock, read(cudaMemPoolAttrReservedMemCurrent));
  CUDA(cudaStreamSynchronize(a));
  EXPECT_EQ(kBlock, read(cudaMemPoolAttrReservedMemCurrent));
  EXPECT_EQ(0u, read(cudaMemPoolAttrUsedMemCurrent));
  EXPECT_EQ(2 * kBlock, read(cudaMemPoolAttrReservedMemHigh));
  EXPECT_EQ(2 * kBlock, read(cudaMemPoolAttrUsedMemHigh));
  CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(0u, read(cudaMemPoolAttrReservedMemCurrent));
  std::uint64_t zero = 0, one = 1;
  CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
  EXPECT_EQ(0u, read(cudaMemPoolAttrReservedMemHigh));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one));
}

TEST_P(Pools, SmallBlocksShareASegmentAndJoinAgain) {
  char* p[4];
  for (auto& each : p) each = static_cast<char*>(take(a, 8 * kMiB));
  EXPECT_EQ(kBlock, read(cudaMemPoolAttrReservedMemCurrent));
  EXPECT_EQ(p[0] + 8 * kMiB, p[1]);
  for (int i : {1, 3, 0, 2}) CUDA(cudaFreeAsync(p[i], a));
  EXPECT_EQ(p[0], take(a, kBlock)) << "all four as one";
  CUDA(cudaFreeAsync(p[0], a));
  void* odd = take(a, 513);
  EXPECT_EQ(1024u, read(cudaMemPoolAttrUsedMemCurrent));
  CUDA(cudaFree(odd)) << "cudaFree takes pool memory too";
}

TEST_P(Pools, RefusesMemoryOfAnotherPool) {
  EXPECT_EQ(cudaErrorInvalidValue, cudaFreeAsync(Memory(kMiB), a));
  void* p = take(a);
  CUDA(cudaFreeAsync(p, a));
  EXPECT_EQ(cudaErrorInvalidValue, cudaFreeAsync(p, a)) << "twice";
  cudaMemPool_t standard = nullptr;
  CUDA(cudaDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemPoolDestroy(standard));
}

}  // namespace
