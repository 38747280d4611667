#include "harness/virtual/device/idle.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "harness/virtual/device/immortal.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
constexpr Seconds kAsleep{1}, kSilent{20}, kBetweenLooks{0.05};

struct Driver {
  long thread = 0;
  std::optional<Seconds> awake = {};  // of its life: it has run, or waited for a core
};

struct Idle {
  std::uint64_t epoch = 0;  // Engine::epoch and Engine::activity that this belongs to
  std::uint64_t activity = 0;
  std::vector<Driver> drivers;
  Clock::time_point since{}, looked{};
  bool drained = false;
};
Idle& idle() { return immortal<Idle>(); }

// None where the thread has ended, or the kernel does not count.
std::optional<Seconds> time_awake(long thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", thread);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return std::nullopt;
  unsigned long long run = 0, waited = 0;  // ns
  const int read = std::fscanf(file, "%llu %llu", &run, &waited);
  std::fclose(file);
  if (read != 2) return std::nullopt;
  return Seconds(static_cast<double>(run + waited) * 1e-9);
}

bool has_ended(long thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%ld", thread);
  return access(path, F_OK) != 0;
}

// In a sleep that the program asked for, and in no wait for a partner, a worker or a lock, which a
// busy machine makes long. True where the kernel does not say.
bool is_sleeping(long thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", thread);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return true;
  long call = -1;
  unsigned long first = 0;
  const int read = std::fscanf(file, "%ld %lx", &call, &first);  // or "running"
  std::fclose(file);
  if (read != 2) return false;
  if (call == SYS_clock_nanosleep || call == SYS_nanosleep) return true;
#ifdef SYS_select
  if (call == SYS_select) return first == 0;  // of no files: an older Python's time.sleep
#endif
  return call == SYS_pselect6 && first == 0;
}

bool all_asleep(const std::vector<Driver>& drivers, Seconds passed) {
  return std::ranges::all_of(drivers, [passed](const Driver& driver) {
    const std::optional<Seconds> awake = time_awake(driver.thread);
    if (!awake) return has_ended(driver.thread);
    return driver.awake && passed - (*awake - *driver.awake) >= kAsleep;
  });
}

}  // namespace

void note_driver(Engine& e) {
  Idle& i = idle();
  if (i.epoch != e.epoch) i.drivers.clear();
  i.epoch = e.epoch;
  i.drivers.push_back({syscall(SYS_gettid)});
}

bool has_drained(const Engine& e) {
  Idle& i = idle();
  const auto now = Clock::now();
  if (i.activity != e.activity || operators_under_way > 0) {
    i.activity = e.activity;
    i.drained = false;
    i.since = i.looked = now;
    for (Driver& driver : i.drivers) driver.awake = time_awake(driver.thread);
    return false;
  }
  if (i.drained || now - i.looked < kBetweenLooks) return i.drained;
  i.looked = now;
  const Seconds passed = now - i.since;
  i.drained = passed >= kSilent || (passed >= kAsleep && all_asleep(i.drivers, passed) &&
                                    std::ranges::any_of(i.drivers, [](const Driver& driver) {
                                      return is_sleeping(driver.thread);
                                    }));
  return i.drained;
}

}  // namespace tidemark::device
