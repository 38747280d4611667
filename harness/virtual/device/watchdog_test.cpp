#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "harness/virtual/device/testing.h"
#include "harness/virtual/device/testing_python.h"

namespace tidemark::device::testing {
namespace {

constexpr Ns kMillisecond = 1'000'000;

/// A thread that waits as PyTorch's watchdog does, but for an hour, and queries one event.
class Watchdog {
 public:
  explicit Watchdog(cudaEvent_t event, std::chrono::milliseconds between = std::chrono::hours(1))
      : event_(event), between_(between), thread_([this] { run(); }) {
    while (!begun_) std::this_thread::yield();
    const std::lock_guard asleep(mutex_);
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    condition_.notify_one();
    thread_.join();
  }
  bool has_seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  int passes() {
    const std::lock_guard lock(mutex_);
    return passes_;
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
    std::unique_lock lock(mutex_);
    begun_ = true;
    while (!condition_.wait_for(lock, between_, [this] { return end_; })) {
      ++passes_;
      const bool seen = cudaEventQuery(event_) == cudaSuccess;
      EXPECT_FALSE(seen_ && !seen) << "done stays done";
      seen_ = seen;
    }
  }

  cudaEvent_t event_;
  std::chrono::milliseconds between_;
  std::mutex mutex_;
  std::condition_variable condition_;
  std::atomic<bool> begun_{false};
  bool end_ = false, seen_ = false;
  int passes_ = 0;
  std::thread thread_;
};

void call_operator() {
  tidemark_device_begin_operator("operator");
  tidemark_device_end_operator(0);
}

struct Watchdogs : EachSchedule {
  /// A work of this length in a new stream, and an event after it.
  static std::pair<cudaStream_t, cudaEvent_t> work(Ns duration) {
    const cudaStream_t stream = make_stream();
    const cudaEvent_t event = make_event(cudaEventDisableTiming);
    before_collectives();
    run(stream, duration);
    EXPECT_EQ(cudaSuccess, cudaEventRecord(event, stream));
    return {stream, event};
  }

  /// True if a watchdog sees a work of a minute while this thread does something, in which so many
  /// seconds pass for the program.
  template <class Pastime>
  bool seen_during(Pastime pastime, Ns seconds) {
    const auto [stream, event] = work(60'000 * kMillisecond);
    const Ns before = tidemark_device_now();
    Watchdog watchdog(event, std::chrono::milliseconds(100));
    pastime();
    EXPECT_EQ(before + seconds * 1'000 * kMillisecond, tidemark_device_now());
    const bool seen = watchdog.has_seen();
    EXPECT_EQ(instant() ? cudaSuccess : cudaErrorNotReady, cudaStreamQuery(stream));
    return seen;
  }
};

TEST_P(Watchdogs, SeeWhatTheScheduleSaysBeforeTheNextOperator) {
  const auto [stream, event] = work(150 * kMillisecond);
  Watchdog watchdog(event);
  call_operator();
  EXPECT_EQ(instant(), watchdog.has_seen());
  CUDA(cudaStreamSynchronize(stream));
  call_operator();
  EXPECT_EQ(instant() || lagging(), watchdog.has_seen());
  run(stream, 60 * kMillisecond);
  CUDA(cudaStreamSynchronize(stream));
  call_operator();
  EXPECT_TRUE(watchdog.has_seen()) << "the second multiple of 100 ms is past";
}

TEST_P(Watchdogs, AreAwaitedByTheMemoryOfCollectives) {
  const auto [stream, event] = work(150 * kMillisecond);
  Watchdog watchdog(event);
  static char block[1024];
  note_access(stream, "collective", block + 512, 4, true);
  const auto waits = [&] { return tidemark_device_waits_for_watchdog(block, sizeof block) != 0; };
  EXPECT_EQ(!instant(), waits());
  EXPECT_FALSE(tidemark_device_waits_for_watchdog(block, 512)) << "the block before it";
  CUDA(cudaStreamSynchronize(stream));
  call_operator();
  EXPECT_EQ(!instant() && !lagging(), waits());
  run(stream, 60 * kMillisecond);
  CUDA(cudaStreamSynchronize(stream));
  call_operator();
  EXPECT_FALSE(waits());
}

TEST_P(Watchdogs, LookBetweenCollectivesOnlyWhereThereIsSomethingToSee) {
  const cudaStream_t stream = make_stream();
  Watchdog watchdog(make_event(cudaEventDisableTiming));
  call_operator();
  const int before = watchdog.passes();
  for (int i = 0; i < 100; ++i) {
    before_collectives();
    run(stream, 1);
  }
  EXPECT_EQ(before + (instant() ? 99 : 0), watchdog.passes());
}

TEST_P(Watchdogs, UnderLaggingSeeADrainedDeviceWhileTheHostSleepsAndTheHostDoesNot) {
  EXPECT_EQ(instant() || lagging(), seen_during([] { sleep_as_python(2'000 * kMillisecond); }, 2));
}

TEST_P(Watchdogs, SeeNoDrainedDeviceWhileTheHostIsBusy) {
  const auto spin = [] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  EXPECT_EQ(instant(), seen_during(spin, 0));
}

TEST_P(Watchdogs, SeeBeforeTheNextOperatorWhatEndedInASleep) {
  Watchdog watchdog(work(150 * kMillisecond).second);
  for (int i = 0; i < 3; ++i) sleep_as_python(100 * kMillisecond);
  call_operator();
  EXPECT_EQ(!lagging(), watchdog.has_seen());
}

/// A thread that waits as PyTorch's watchdog does, and lies down once a collective has failed.
class FailedWatchdog {
 public:
  explicit FailedWatchdog(std::chrono::seconds rest) : thread_([this, rest] { run(rest); }) {
    while (!rests_) std::this_thread::yield();
  }
  ~FailedWatchdog() { thread_.join(); }
  bool rests() const { return rests_; }

 private:
  void run(std::chrono::seconds rest) {
    pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable never;
    never.wait_for(lock, std::chrono::milliseconds(1));
    rests_ = true;
    std::this_thread::sleep_for(rest);
    rests_ = false;
  }

  std::atomic<bool> rests_{false};
  std::thread thread_;
};

TEST_P(Watchdogs, ThatHaveSeenAnErrorAreNotWaitedFor) {
  const FailedWatchdog watchdog(std::chrono::seconds(2));
  run(make_stream(), 150 * kMillisecond);
  before_collectives();
  call_operator();
  EXPECT_TRUE(watchdog.rests());
}

// The notification that c10d's monitor misses when it has looked at `end` and does not wait yet.
TEST(Monitor, EndsWithoutANotification) {
  std::atomic<bool> waits{false}, end{false};
  std::mutex mutex;
  std::condition_variable condition;
  std::thread monitor([&] {
    pthread_setname_np(pthread_self(), "pt_nccl_heartbt");
    std::unique_lock lock(mutex);
    waits = true;
    EXPECT_TRUE(condition.wait_for(lock, std::chrono::hours(1), [&] { return end.load(); }));
  });
  while (!waits) std::this_thread::yield();
  {
    const std::lock_guard it_waits(mutex);
    end = true;
  }
  monitor.join();
}

// The last tests, since the end of the program is that of all.
TEST_P(Watchdogs, SeeEverythingAtTheEndOfTheProgram) {
  Watchdog watchdog(work(150 * kMillisecond).second);
  tidemark_device_program_ends();
  EXPECT_TRUE(watchdog.has_seen());
}

TEST_P(Watchdogs, ThatHaveSeenAnErrorAreShortAtTheEndOfTheProgram) {
  const FailedWatchdog watchdog(std::chrono::hours(1));
  tidemark_device_program_ends();
  EXPECT_TRUE(watchdog.rests());
}  // the destructor waits for its end

INSTANTIATE_TEST_SUITE_P(, Watchdogs, kSchedules, schedule_name);

}  // namespace
}  // namespace tidemark::device::testing
