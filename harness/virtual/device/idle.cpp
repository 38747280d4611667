#include "harness/virtual/device/idle.h"

#include <dlfcn.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <string_view>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/interposed.h"
#include "harness/virtual/device/watchdog.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSilent{20};
constexpr Ns kSecond = 1'000'000'000, kAsleep = kSecond;

// Since the last call of the device.
struct Idle {
  std::uint64_t activity = 0;
  Clock::time_point since{};
  Ns slept = 0;
  VectorClock drained = {};  // for good

  void follow(const Engine& e) {
    if (activity == e.activity && operators_under_way == 0) return;
    activity = e.activity;
    since = Clock::now();
    slept = 0;
  }
};
Idle& idle() { return immortal<Idle>(); }

}  // namespace

bool is_left_alone(Engine& e, const Mark& mark) {
  Idle& i = idle();
  i.follow(e);
  if ((e.schedule == Schedule::lagging && i.slept >= kAsleep) || Clock::now() - i.since >= kSilent)
    i.drained.merge(e.mark_all(-1).clock);
  return i.drained.covers(mark.clock);
}

namespace {

const void* library_of(const void* address) {
  Dl_info library{};
  return dladdr(address, &library) != 0 ? library.dli_fbase : nullptr;
}

// Other libraries sleep while they wait for partners: how often depends on the machine.
bool is_python(const void* caller) {
  const void* const python = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  return python != nullptr && library_of(caller) == library_of(python);
}

// PyTorch 2.4 to 2.6 do not begin a capture before the watchdogs of the process groups have seen
// the end of every work, and sleep for 200 ms at a time until then.
bool waits_for_watchdogs(const void* caller) {
  thread_local const void* last = nullptr;  // most threads that sleep often do so in one place
  thread_local bool waits = false;
  if (caller == last) return waits;
  last = caller;
  Dl_info place{};
  waits =
      dladdr(caller, &place) != 0 && place.dli_sname &&
      std::string_view(place.dli_sname).find("CUDAGraph13capture_begin") != std::string_view::npos;
  return waits;
}

void pass(Ns duration) {
  settle_for_a_while();
  auto [e, lock] = locked_at_once();
  if (!drives_device(e)) return;
  Idle& i = idle();
  i.follow(e);
  i.slept += duration;
  e.now += duration;
  if (i.slept >= kAsleep) ++e.news;
  show_watchdogs_the_time(e);
}

void sleep_of_program(Ns duration, const void* caller) {
  if (duration > 0 && has_driven_device() && syscall(SYS_gettid) == getpid() && is_python(caller))
    pass(duration);
}

// When this thread last read the steady clock. Python adds the length of a sleep to that, and asks
// for the point of time.
[[gnu::tls_model("initial-exec")]] thread_local Ns last_read = 0;

int read_clock(clockid_t clock, timespec* time) {
  static auto* const read = next<decltype(clock_gettime)>("clock_gettime", "GLIBC_2.17");
  return read(clock, time);
}

Ns until(const timespec& end) {
  timespec now{};
  read_clock(CLOCK_MONOTONIC, &now);
  const Ns since = ns_of(now) - last_read;
  return ns_of(end) - (since >= 0 && since < kSecond ? last_read : ns_of(now));
}

}  // namespace
}  // namespace tidemark::device

// In place of the C library's, for all libraries of the process.
using tidemark::device::next;
using tidemark::device::sleep_of_program;

EXPORTED int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int error = tidemark::device::read_clock(clock, time);
  if (clock == CLOCK_MONOTONIC && error == 0)
    tidemark::device::last_read = tidemark::device::ns_of(*time);
  return error;
}

EXPORTED int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  static auto* const sleep = next<decltype(clock_nanosleep)>("clock_nanosleep", "GLIBC_2.17");
  const bool to_a_point = (flags & TIMER_ABSTIME) != 0;
  if (time && (!to_a_point || clock == CLOCK_MONOTONIC))
    sleep_of_program(to_a_point ? tidemark::device::until(*time) : tidemark::device::ns_of(*time),
                     __builtin_return_address(0));
  return sleep(clock, flags, time, left);
}

EXPORTED int nanosleep(const timespec* time, timespec* left) {
  static auto* const sleep = next<decltype(nanosleep)>("nanosleep", "GLIBC_2.2.5");
  if (time &&
      tidemark::device::rest_of_watchdog(std::chrono::nanoseconds(tidemark::device::ns_of(*time))))
    return 0;
  if (time && tidemark::device::has_driven_device() &&
      tidemark::device::waits_for_watchdogs(__builtin_return_address(0))) {
    tidemark::device::pass(tidemark::device::ns_of(*time));
    tidemark::device::let_watchdogs_look();
  }
  return sleep(time, left);
}

// A select without files is time.sleep of Python before 3.11.
EXPORTED int select(int files, fd_set* read, fd_set* write, fd_set* except, timeval* time) {
  static auto* const real = next<decltype(select)>("select", "GLIBC_2.2.5");
  if (files == 0 && time)
    sleep_of_program(time->tv_sec * tidemark::device::kSecond + time->tv_usec * 1000,
                     __builtin_return_address(0));
  return real(files, read, write, except, time);
}
