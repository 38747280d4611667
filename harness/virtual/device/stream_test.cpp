// Streams and events as CUDA's documentation has them, in all three schedules.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;
using tidemark::device::Ns;

constexpr Ns kLong = 1'000'000'000;

struct Streams : EachSchedule {};
INSTANTIATE_TEST_SUITE_P(All, Streams, kSchedules, schedule_name);

TEST_P(Streams, QueryFollowsTheSchedule) {
  const cudaStream_t s = make_stream();
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(s)) << "nothing was enqueued";
  run(s, kLong);
  EXPECT_EQ(instant() ? cudaSuccess : cudaErrorNotReady, cudaStreamQuery(s));
  CUDA(cudaStreamSynchronize(s));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(s));
  EXPECT_GE(tidemark_device_now(), kLong)
      << "a synchronisation moves the host to the end of the work";
}

TEST_P(Streams, AHeldRecordIsDoneWhenItIsReleasedOrWaitedFor) {
  const cudaStream_t held = make_stream(), other = make_stream();
  const cudaEvent_t before = make_event(), first = make_event(), second = make_event(),
                    beside = make_event();
  CUDA(cudaEventRecord(before, held));
  tidemark_device_hold_records(held);
  CUDA(cudaEventRecord(first, held));
  CUDA(cudaEventRecord(second, held));
  CUDA(cudaEventRecord(beside, other));
  CUDA(cudaEventQuery(before));
  CUDA(cudaEventQuery(beside));
  for (int poll = 0; poll < 10'000; ++poll)
    ASSERT_EQ(cudaErrorNotReady, cudaEventQuery(first)) << poll;
  tidemark_device_release_records(held, 1);
  CUDA(cudaEventQuery(first));
  EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(second));
  CUDA(cudaEventSynchronize(second));
  CUDA(cudaEventQuery(second));
  cudaGetLastError();
}

TEST_P(Streams, EnoughHostTimeCompletesWorkOnlyWhenCalibrated) {
  const cudaStream_t s = make_stream(), other = make_stream();
  run(s, 10'000);
  tidemark_device_set_launch_cost(1'000'000);
  run(other, 0);  // the host is busy for a millisecond
  tidemark_device_set_launch_cost(-1);
  EXPECT_EQ(lagging() ? cudaErrorNotReady : cudaSuccess, cudaStreamQuery(s));
  cudaGetLastError();
}

TEST_P(Streams, SynchronisingCoversOnlyOperationsOrderedBefore) {
  const cudaStream_t a = make_stream(), b = make_stream(), c = make_stream();
  const cudaEvent_t e = make_event();
  run(a, kLong);
  CUDA(cudaEventRecord(e, a));
  run(a, kLong);  // after the record
  CUDA(cudaStreamWaitEvent(b, e, 0));
  run(b, 1000);
  run(c, 5 * kLong);
  CUDA(cudaStreamSynchronize(b));
  EXPECT_EQ(cudaSuccess, cudaEventQuery(e));
  const cudaError_t busy = instant() ? cudaSuccess : cudaErrorNotReady;
  EXPECT_EQ(busy, cudaStreamQuery(a)) << "its second operation is not ordered before b";
  EXPECT_EQ(busy, cudaStreamQuery(c));
}

TEST_P(Streams, AWaitCapturesTheRecordOfItsOwnMoment) {
  const cudaStream_t a = make_stream(), b = make_stream();
  const cudaEvent_t e = make_event();
  run(a, 1000);
  CUDA(cudaEventRecord(e, a));
  CUDA(cudaStreamWaitEvent(b, e, 0));
  run(a, kLong);
  CUDA(cudaEventRecord(e, a));  // changes nothing for b
  run(b, 1000);
  CUDA(cudaStreamSynchronize(b));
  EXPECT_LT(tidemark_device_now(), kLong);
  EXPECT_EQ(instant() ? cudaSuccess : cudaErrorNotReady, cudaEventQuery(e))
      << "a query sees the latest record";
  CUDA(cudaEventSynchronize(e));
  EXPECT_GE(tidemark_device_now(), kLong);
}

TEST_P(Streams, AnEventNeverRecordedIsDone) {
  const cudaStream_t s = make_stream();
  const cudaEvent_t e = make_event();
  EXPECT_EQ(cudaSuccess, cudaEventQuery(e));
  CUDA(cudaEventSynchronize(e));
  CUDA(cudaStreamWaitEvent(s, e, 0));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(s));
}

TEST_P(Streams, ADestroyedEventStillHoldsBackWhoWaitsForIt) {
  const cudaStream_t a = make_stream(), b = make_stream();
  const cudaEvent_t e = make_event();
  run(a, kLong);
  CUDA(cudaEventRecord(e, a));
  CUDA(cudaStreamWaitEvent(b, e, 0));
  CUDA(cudaEventDestroy(e));
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaEventQuery(e));
  CUDA(cudaStreamSynchronize(b));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(a));
}

TEST_P(Streams, ADestroyedStreamFinishesItsWork) {
  const cudaStream_t s = make_stream();
  run(s, kLong);
  CUDA(cudaStreamDestroy(s));
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
  CUDA(cudaDeviceSynchronize());
  EXPECT_GE(tidemark_device_now(), kLong);
}

TEST_P(Streams, LegacyDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  const cudaStream_t blocking = make_stream(cudaStreamDefault), free = make_stream();
  run(blocking, kLong);
  run(free, 7 * kLong);
  run(nullptr, 1000);
  CUDA(cudaStreamSynchronize(nullptr));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(blocking));
  EXPECT_EQ(instant() ? cudaSuccess : cudaErrorNotReady, cudaStreamQuery(free));
  EXPECT_LT(tidemark_device_now(), 2 * kLong);
  run(nullptr, kLong);
  run(blocking, 1000);
  CUDA(cudaStreamSynchronize(blocking));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(nullptr));
}

TEST_P(Streams, PerThreadDefaultStreamIsABlockingStreamOfItsThread) {
  run(cudaStreamPerThread, kLong);
  run(cudaStreamLegacy, 1000);
  CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  EXPECT_EQ(cudaSuccess, cudaStreamQuery(cudaStreamPerThread));
  run(cudaStreamPerThread, kLong);
  bool idle = false;
  std::thread([&] { idle = cudaStreamQuery(cudaStreamPerThread) == cudaSuccess; }).join();
  EXPECT_TRUE(idle) << "another thread has another";
}

TEST_P(Streams, PollingAlwaysGetsThere) {
  const cudaStream_t s = make_stream();
  const cudaEvent_t e = make_event(cudaEventDisableTiming);
  run(s, 3600 * kLong);
  CUDA(cudaEventRecord(e, s));
  long polls = 0;
  while (cudaEventQuery(e) == cudaErrorNotReady) ASSERT_LT(++polls, 100'000);
  EXPECT_EQ(instant(), polls == 0);
}

TEST_P(Streams, AWatchdogLeavesTheClockAlone) {
  const cudaStream_t s = make_stream();
  run(s, kLong);
  const auto before = tidemark_device_now();
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) cudaStreamQuery(s);
  }).join();
  EXPECT_EQ(before, tidemark_device_now());
  bool done = false;
  std::thread([&] {
    for (int i = 0; i < 100'000 && !done; ++i) done = cudaStreamQuery(s) == cudaSuccess;
  }).join();
  EXPECT_TRUE(done)
      << "a thread that waits for the device while no thread drives it must not spin for ever";
}

TEST_P(Streams, AWatchdogWaitsWhereItPollsWithoutAPause) {
  const cudaStream_t s = make_stream();
  std::vector<cudaEvent_t> events;
  for (int i = 0; i < 1000; ++i) {
    run(s, kLong);
    events.push_back(make_event(cudaEventDisableTiming));
    CUDA(cudaEventRecord(events.back(), s));
  }
  const auto done = [&](int sweeps, bool pause) {
    long count = 0;
    std::thread([&] {
      for (int sweep = 0; sweep < sweeps; ++sweep) {
        for (const cudaEvent_t event : events) count += cudaEventQuery(event) == cudaSuccess;
        if (pause) std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }).join();
    return count;
  };
  EXPECT_EQ(instant() ? 50'000 : 0, done(50, true)) << "PyTorch's, of a thousand works";
  EXPECT_GT(done(50, false), 1000) << "the same, when the group is destroyed";
}

TEST_P(Streams, AThreadThatPollsWithPausesWaits) {
  const cudaStream_t s = make_stream();
  run(s, kLong);
  bool done = false;
  std::thread([&] {
    for (int i = 0; i < 10'000 && !done; ++i) {
      done = cudaStreamQuery(s) == cudaSuccess;
      std::this_thread::sleep_for(std::chrono::microseconds(1));
    }
  }).join();
  EXPECT_TRUE(done);
}

TEST_P(Streams, ElapsedTimeIsTheDeviceTimeBetweenTheRecords) {
  const cudaStream_t s = make_stream();
  const cudaEvent_t begin = make_event(), end = make_event();
  float ms = 0;
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, begin, end))
      << "never recorded";
  run(s, 1000);
  CUDA(cudaEventRecord(begin, s));
  run(s, 250'000'000);
  CUDA(cudaEventRecord(end, s));
  EXPECT_EQ(instant() ? cudaSuccess : cudaErrorNotReady, cudaEventElapsedTime(&ms, begin, end));
  CUDA(cudaEventSynchronize(end));
  CUDA(cudaEventElapsedTime(&ms, begin, end));
  EXPECT_NEAR(250.0, ms, 0.1);
  const cudaEvent_t untimed = make_event(cudaEventDisableTiming);
  CUDA(cudaEventRecord(untimed, s));
  CUDA(cudaEventSynchronize(untimed));
  EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, begin, untimed));
}

TEST_P(Streams, HostFunctionsRunInOrderAndMayTakeTheCallersLock) {
  const cudaStream_t s = make_stream();
  struct Shared {
    std::mutex mutex;
    std::vector<int> order;
  } shared;
  {
    std::lock_guard lock(shared.mutex);
    for (int i = 0; i < 3; ++i) {
      CUDA(cudaLaunchHostFunc(
          s,
          [](void* p) {
            auto* all = static_cast<Shared*>(p);
            std::lock_guard inner(all->mutex);
            all->order.push_back(static_cast<int>(all->order.size()));
          },
          &shared));
    }
  }
  CUDA(cudaStreamSynchronize(s));
  EXPECT_EQ((std::vector<int>{0, 1, 2}), shared.order);
  EXPECT_EQ(cudaErrorInvalidValue, cudaLaunchHostFunc(s, nullptr, nullptr));
}

TEST(Priorities, AreClampedToTheRange) {
  int least = 1, greatest = 1, priority = 1;
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(0, least);
  EXPECT_LT(greatest, 0);
  cudaStream_t s = nullptr;
  CUDA(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
  CUDA(cudaStreamGetPriority(s, &priority));
  EXPECT_EQ(greatest, priority);
  CUDA(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -1000));
  CUDA(cudaStreamGetPriority(s, &priority));
  EXPECT_EQ(greatest, priority);
  unsigned flags = 0;
  CUDA(cudaStreamGetFlags(s, &flags));
  EXPECT_EQ(unsigned{cudaStreamNonBlocking}, flags);
}

TEST(Clock, KernelsOfOneStreamQueueAndOfTwoOverlap) {
  schedule("calibrated");
  tidemark_device_set_launch_cost(0);
  const cudaStream_t a = make_stream(), b = make_stream();
  run(a, 1000);
  run(a, 1000);
  run(b, 1500);
  CUDA(cudaDeviceSynchronize());
  EXPECT_GE(tidemark_device_now(), 2000);
  EXPECT_LT(tidemark_device_now(), 3500 + 3000) << "3000 is the synchronisation's own cost";
  tidemark_device_set_launch_cost(-1);
}

// The host's clock is that of a queue of so many launches a stream, launch by launch.
TEST(Clock, TheHostWaitsWhereAStreamHasNoRoomForALaunch) {
  constexpr std::size_t kRoom = 1024;
  constexpr Ns kCost = 10;
  schedule("calibrated");
  tidemark_device_set_launch_cost(kCost);
  std::mt19937 draw(5);  // NOLINT: the same program each time
  struct Stream {
    cudaStream_t handle = make_stream();
    std::vector<Ns> ends;
  };
  std::vector<Stream> streams(3);
  Ns now = tidemark_device_now();
  bool waited = false;
  for (int i = 0; i < 8000; ++i) {
    Stream& s = streams[draw() % 8 == 0 ? 2 : draw() % 2];
    const Ns duration = draw() % 4 == 0 ? 0 : static_cast<Ns>(draw() % 100);
    run(s.handle, duration);
    now += kCost;
    if (s.ends.size() >= kRoom && s.ends[s.ends.size() - kRoom] > now)
      now = s.ends[s.ends.size() - kRoom], waited = true;
    s.ends.push_back(std::max(now, s.ends.empty() ? 0 : s.ends.back()) + duration);
    ASSERT_EQ(now, tidemark_device_now()) << "launch " << i;
  }
  EXPECT_TRUE(waited) << "the program is long enough";
  tidemark_device_set_launch_cost(-1);
  CUDA(cudaDeviceSynchronize());
}

TEST(Trace, KeepsTheLastOperationsAndCountsTheOthers) {
  schedule("calibrated");
  const cudaStream_t s = make_stream();
  tidemark_device_trace_at_most(7);
  tidemark_device_trace(1);
  for (int i = 1; i <= 23; ++i) run(s, 10);
  const auto spans = traced();
  ASSERT_EQ(2U, spans.size()) << "23 = 3 * 7 + 2";
  EXPECT_EQ(21U, tidemark_device_trace_left_out());
  EXPECT_STREQ("work", spans[0].name);
  EXPECT_EQ(spans[0].place + 1, spans[1].place);
  tidemark_device_trace(1);
  EXPECT_EQ(0U, tidemark_device_trace_left_out());
  tidemark_device_trace_at_most(0);
  for (int i = 1; i <= 23; ++i) run(s, 10);
  EXPECT_EQ(23U, traced().size());
  tidemark_device_trace(0);
}

}  // namespace
