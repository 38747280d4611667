#include <sched.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "harness/virtual/device/testing.h"

namespace tidemark::device::testing {
namespace {

constexpr Ns kMicrosecond = 1'000, kSecond = 1'000'000'000;

timespec after(Ns duration, timespec from = {}) {
  const Ns end = from.tv_sec * kSecond + from.tv_nsec + duration;
  return {end / kSecond, end % kSecond};
}

/// As Python does: the steady clock is read, some time passes, and the sleep ends at a point.
void sleep_until(Ns duration) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const timespec end = after(duration, now);
  for (int i = 0; i < 1000; ++i) sched_yield();
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr);
}

using Sleep = void (*)(Ns);
const Sleep kSleeps[] = {
    sleep_until,
    [](Ns duration) {
      const timespec time = after(duration);
      clock_nanosleep(CLOCK_REALTIME, 0, &time, nullptr);
    },
    [](Ns duration) {
      const timespec time = after(duration);
      nanosleep(&time, nullptr);
    },
    [](Ns duration) { usleep(static_cast<useconds_t>(duration / kMicrosecond)); },
    [](Ns duration) {
      timeval time{duration / kSecond, duration % kSecond / kMicrosecond};
      select(0, nullptr, nullptr, nullptr, &time);
    },
};

using Pauses = EachSchedule;

TEST_P(Pauses, PassOnTheHostsClockAsLongAsTheProgramAskedFor) {
  run(make_stream(), 1);
  std::mt19937 random(1);
  for (const Sleep sleep : kSleeps) {
    const Ns duration = std::uniform_int_distribution<Ns>(1, 30'000)(random) * kMicrosecond;
    const Ns before = tidemark_device_now();
    sleep(duration);
    EXPECT_EQ(duration, tidemark_device_now() - before);
  }
  const Ns before = tidemark_device_now();
  ::sleep(1);
  EXPECT_EQ(kSecond, tidemark_device_now() - before);
}

TEST_P(Pauses, OfAnotherThreadOrOfAnEndedOneDoNot) {
  run(make_stream(), 1);
  const Ns before = tidemark_device_now();
  std::thread([] { usleep(10'000); }).join();
  const timespec past{1, 0};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, nullptr);
  EXPECT_EQ(before, tidemark_device_now());
}

TEST_P(Pauses, OfAForkedProcessLeaveTheDeviceAlone) {
  run(make_stream(), 1);
  std::atomic<bool> end{false};
  std::thread busy([&] {  // holds the engine's lock again and again
    while (!end) tidemark_device_now();
  });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      usleep(100);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(0, status);
  }
  end = true;
  busy.join();
}

INSTANTIATE_TEST_SUITE_P(, Pauses, kSchedules, schedule_name);

}  // namespace
}  // namespace tidemark::device::testing
