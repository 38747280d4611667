// Purpose of the three schedules: memory that waits for a stream. Eight layers prefetch one
// gathered buffer of one unit each on a side stream and copy it into a full one. With record_stream
// the buffer stays active until the side stream's event is done, so the peak says how far the host
// ran ahead; dropping the buffer after the wait needs two units always.
#include <gtest/gtest.h>

#include "harness/virtual/device/testing.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using tidemark::device::Ns;

constexpr int kLayers = 8;
constexpr int64_t kUnit = int64_t{64} << 20;

struct Peaks {
  double allocated, active, reserved;  // in units
  bool operator==(const Peaks&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Peaks& p) {
  return out << p.allocated << "/" << p.active << "/" << p.reserved;
}

Peaks run(const char* schedule, bool record_stream, Ns kernel) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  c10::cuda::device_synchronize();
  allocator::emptyCache();
  allocator::get()->resetPeakStats(0);
  EXPECT_EQ(0, tidemark_device_set_schedule(schedule));
  tidemark_device_reset_clock();
  tidemark_device_set_launch_cost(140'000);  // six launches a layer: 0.84 ms of host time
  const auto side = c10::cuda::getStreamFromPool(true, 0);
  const auto compute = c10::cuda::getCurrentCUDAStream(0);
  std::vector<c10::DataPtr> gathered(kLayers);
  std::vector<at::cuda::CUDAEvent> ready(kLayers);
  const auto work = [](cudaStream_t stream, Ns duration) {
    tidemark::device::testing::run(stream, duration);
  };
  const auto gather = [&](size_t i) {
    gathered[i] = allocator::get()->allocate(kUnit);
    at::cuda::CUDAEvent before;
    before.record(compute);
    before.block(side);
    work(side, 900'000);
    if (record_stream) allocator::recordStream(gathered[i], side);
    ready[i].record(side);
  };
  gather(0);
  for (size_t i = 0; i < kLayers; ++i) {
    ready[i].block(compute);
    auto full = allocator::get()->allocate(kUnit);
    work(compute, kernel / 20);
    gathered[i].clear();
    if (i + 1 < kLayers) gather(i + 1);
    for (int k = 0; k < 4; ++k) work(compute, kernel / 4);
  }
  tidemark_device_set_launch_cost(-1);
  const auto stats = allocator::getDeviceStats(0);
  const auto units = [](const auto& s) { return static_cast<double>(s[0].peak) / kUnit; };
  return {units(stats.allocated_bytes), units(stats.active_bytes), units(stats.reserved_bytes)};
}

constexpr Ns kFast = 100'000, kLevel = 1'000'000, kSlow = 4'000'000;  // a layer's compute

TEST(RunAhead, RecordStreamCostsNothingWhereTheDeviceIsInstant) {
  EXPECT_EQ((Peaks{2, 2, 2}), run("instant", true, kSlow));
}

TEST(RunAhead, RecordStreamKeepsEveryBufferWhereNothingCompletes) {
  EXPECT_EQ((Peaks{2, 9, 9}), run("lagging", true, kFast)) << "all eight and the full one";
}

TEST(RunAhead, CalibratedLiesBetweenAndGrowsWithTheDevicesSlowness) {
  const Peaks level = run("calibrated", true, kLevel), slow = run("calibrated", true, kSlow);
  EXPECT_EQ(2, level.allocated);
  EXPECT_GT(level.active, 2);
  EXPECT_GT(slow.active, level.active);
  EXPECT_LT(slow.active, 9);
}

TEST(RunAhead, AReferenceHeldUntilTheWaitNeedsTwoUnitsAlways) {
  for (const char* schedule : {"instant", "calibrated", "lagging"}) {
    EXPECT_EQ((Peaks{2, 2, 2}), run(schedule, false, kSlow)) << schedule;
  }
}

TEST(RunAhead, TwoRunsAreEqual) {
  for (const char* schedule : {"instant", "calibrated", "lagging"}) {
    const Peaks first = run(schedule, true, kLevel);
    const auto end = tidemark_device_now();
    EXPECT_EQ(first, run(schedule, true, kLevel)) << schedule;
    EXPECT_EQ(end, tidemark_device_now()) << schedule;
  }
}

}  // namespace
