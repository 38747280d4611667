#include <dlfcn.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "harness/virtual/device/testing.h"
#include "harness/virtual/device/testing_python.h"

namespace tidemark::device::testing {
namespace {

constexpr Ns kMicrosecond = 1'000, kSecond = 1'000'000'000;

timespec after(Ns duration, timespec from = {}) {
  const Ns end = from.tv_sec * kSecond + from.tv_nsec + duration;
  return {end / kSecond, end % kSecond};
}

/// As Python from 3.11 on does: the steady clock is read, some time passes, and the sleep ends at a
/// point.
void sleep_until(Ns duration) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const timespec end = after(duration, now);
  for (int i = 0; i < 20; ++i) sched_yield();
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr);
}

struct Pauses : EachSchedule {
  void SetUp() override {
    Dl_info device{}, library{};
    dladdr(reinterpret_cast<void*>(&tidemark_device_now), &device);
    for (const char* name : {"clock_gettime", "clock_nanosleep", "select"})
      if (dladdr(dlsym(RTLD_DEFAULT, name), &library) == 0 || library.dli_fbase != device.dli_fbase)
        GTEST_SKIP() << "a sanitizer has its own " << name;
    EachSchedule::SetUp();
  }
};

TEST_P(Pauses, PassOnTheHostsClockAsLongAsTheProgramAskedFor) {
  run(make_stream(), 1);
  std::mt19937 random(1);
  for (const auto sleep : {sleep_until, sleep_as_python}) {
    const Ns duration = std::uniform_int_distribution<Ns>(1, 30'000)(random) * kMicrosecond;
    const Ns before = tidemark_device_now();
    sleep(duration);
    EXPECT_EQ(duration, tidemark_device_now() - before);
  }
}

TEST_P(Pauses, OfLibrariesDoNot) {
  run(make_stream(), 1);
  const Ns before = tidemark_device_now();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  usleep(1'000);
  EXPECT_EQ(before, tidemark_device_now());
}

TEST_P(Pauses, OfAnotherThreadOrOfAnEndedOneDoNot) {
  run(make_stream(), 1);
  const Ns before = tidemark_device_now();
  std::thread([] { sleep_as_python(10 * kMicrosecond); }).join();
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
      sleep_as_python(100 * kMicrosecond);
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
