#include "harness/virtual/device/watchdog.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <new>
#include <string_view>
#include <thread>
#include <typeinfo>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/interposed.h"
#include "harness/virtual/device/interpreter.h"
#include "harness/virtual/device/workers.h"

namespace tidemark::device {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Ns kSleep = 100'000'000;  // kWatchdogThreadSleepMillis of c10d
constexpr Ns kSecond = 1'000'000'000;
constexpr auto kSignalAgain = std::chrono::milliseconds(1);  // a watchdog that was about to sleep
constexpr auto kLongest = std::chrono::seconds(30);          // of a pass, before it is given up
constexpr auto kRest = std::chrono::seconds(1);  // c10d's sleeps within a pass are far shorter
constexpr auto kDump = std::chrono::seconds(3);  // c10d's monitor looks each second for a failure

struct Watchdog {
  pthread_cond_t* asleep_on = nullptr;  // while it sleeps
  std::uint64_t begun = 0, seen = 0;  // Engine::news at the begin of its last pass; of a whole one
  bool given_up = false;              // does not come back from its pass

  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
};

struct Watchdogs {
  std::mutex mutex;
  std::condition_variable passed;
  std::vector<Watchdog*> all;
  std::vector<pthread_t> starting;     // threads that have not slept yet
  std::uint64_t wanted = 0;            // the highest Engine::news that the host has waited for
  std::atomic<std::uint64_t> seen{0};  // by all of them
  std::atomic<std::size_t> count{0};

  /// With the lock held, after `all` or `starting` has changed.
  void changed() {
    count = all.size() + starting.size();
    passed.notify_all();
  }
};
Watchdogs& watchdogs() { return immortal<Watchdogs>(); }

Watchdog::Watchdog() {
  // A forked process has none of its parent's watchdogs, and may have been forked under their lock.
  static const int at_fork = pthread_atfork(nullptr, nullptr, [] { new (&watchdogs()) Watchdogs; });
  (void)at_fork;
  Watchdogs& w = watchdogs();
  const std::lock_guard lock(w.mutex);
  w.all.push_back(this);
  std::erase(w.starting, pthread_self());
  w.changed();
}

Watchdog::~Watchdog() {
  Watchdogs& w = watchdogs();
  const std::lock_guard lock(w.mutex);
  std::erase(w.all, this);
  w.changed();
}

enum class Role { unknown, watchdog, heartbeat, other };
thread_local Role role = Role::unknown;
// Lead of this thread's clocks when they are next read. PyTorch's wheels wait for a point of the
// steady clock on the system clock, and sleep again where the steady one is not there.
thread_local Ns ahead = 0;

Watchdog* this_watchdog() {
  Watchdogs& w = watchdogs();
  if (role == Role::unknown) {
    char name[16] = {};
    prctl(PR_GET_NAME, name);
    role = std::string_view(name) == "pt_nccl_watchdg"   ? Role::watchdog
           : std::string_view(name) == "pt_nccl_heartbt" ? Role::heartbeat
                                                         : Role::other;
    if (role != Role::watchdog && w.count > 0) {
      const std::lock_guard lock(w.mutex);
      std::erase(w.starting, pthread_self());
      w.changed();
    }
  }
  if (role != Role::watchdog) return nullptr;
  thread_local Watchdog mine;
  return &mine;
}

Ns read(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return ns_of(time);
}

/// A watchdog's sleep until `end`; ETIMEDOUT makes it look at its works.
template <class Wait>
int sleep(Watchdog& self, pthread_cond_t* condition, clockid_t clock, const timespec& end,
          Wait wait) {
  Watchdogs& w = watchdogs();
  std::unique_lock lock(w.mutex);
  self.seen = self.begun;
  self.given_up = false;
  w.passed.notify_all();
  if (w.wanted <= self.begun) {
    self.asleep_on = condition;
    lock.unlock();
    const int woken = wait();
    lock.lock();
    self.asleep_on = nullptr;
    if (woken != ETIMEDOUT && w.wanted <= self.begun) return woken;  // PyTorch's own signal
  }
  self.begun = w.wanted;
  ahead = std::max<Ns>(ns_of(end) - read(clock), 0) + 1'000'000;
  return ETIMEDOUT;
}

/// A wait of another thread. c10d tells its monitor to end without the lock of what the monitor
/// waits for: one that is about to wait misses that, and the end of the process then takes eight
/// minutes. A monitor's wait therefore ends each second, as if by chance.
template <class Wait>
int wait_of_other(clockid_t clock, timespec end, Wait wait) {
  const Ns soon = read(clock) + kSecond;
  if (role != Role::heartbeat || ns_of(end) <= soon) return wait(end);
  end = {soon / kSecond, soon % kSecond};
  const int woken = wait(end);
  return woken == ETIMEDOUT ? 0 : woken;
}

void wait_for_passes(std::uint64_t news) {
  const WithoutInterpreter without_interpreter;  // a pass may release objects of Python
  Watchdogs& w = watchdogs();
  std::unique_lock lock(w.mutex);
  w.wanted = std::max(w.wanted, news);
  const auto passed = [news](const Watchdog* one) { return one->seen >= news || one->given_up; };
  const auto all_passed = [&] {
    return w.starting.empty() && std::all_of(w.all.begin(), w.all.end(), passed);
  };
  for (const auto begin = Clock::now(); !all_passed();) {
    for (Watchdog* one : w.all)
      if (!passed(one) && one->asleep_on) pthread_cond_broadcast(one->asleep_on);
    if (w.passed.wait_for(lock, kSignalAgain, all_passed) || Clock::now() - begin < kLongest)
      continue;
    for (Watchdog* one : w.all) one->given_up = !passed(one) || one->given_up;
    w.starting.clear();
    std::fprintf(stderr,
                 "tidemark: PyTorch's watchdog of a process group has looked at its works for 30 s "
                 "and is not waited for any longer; what it still holds counts in the peaks\n");
  }
  w.seen = std::max(w.seen.load(), news);
}

}  // namespace

bool is_watchdog() { return role == Role::watchdog; }

bool watchdog_sees(const Engine& e, const Mark& mark) {
  if (e.program_ended) return true;
  if (e.schedule == Schedule::instant || e.schedule == Schedule::lagging) return e.is_done(mark);
  return mark.time <= e.watched;
}

void show_watchdogs_the_time(Engine& e) {
  const Ns last = e.now - e.now % kSleep;
  if (e.schedule == Schedule::instant || e.schedule == Schedule::lagging || last <= e.watched)
    return;
  e.watched = last;
  ++e.news;
}

namespace {

struct Works {
  std::map<std::uintptr_t, Mark> last;  // on the memory that begins there
  std::size_t most = 1024;              // of which those that have been seen are not forgotten

  void forget_seen(const Engine& e) {
    std::erase_if(last, [&](const auto& one) { return watchdog_sees(e, one.second); });
    most = std::max<std::size_t>(1024, 2 * last.size());
  }
};
Works& works() { return immortal<Works>(); }

}  // namespace

void note_memory_of_work(Engine& e, Stream& s, const void* address) {
  if (watchdogs().count == 0) return;
  if (works().last.size() >= works().most) works().forget_seen(e);
  works().last[reinterpret_cast<std::uintptr_t>(address)] = e.mark(s);
}

void let_watchdogs_look() {
  Watchdogs& w = watchdogs();
  // The role of this thread must be known before it waits with the lock held.
  if (w.count == 0 || this_watchdog()) return;
  settle_for_a_while();
  std::uint64_t news = 0;
  {
    auto [e, lock] = locked_at_once();
    show_watchdogs_the_time(e);
    news = e.news;
  }
  if (news > w.seen) wait_for_passes(news);
}

void let_watchdogs_end() {
  if (watchdogs().count == 0 || this_watchdog()) return;
  std::uint64_t news = 0;
  {
    auto [e, lock] = locked_at_once();
    e.program_ended = true;
    news = ++e.news;
  }
  wait_for_passes(news);
}

bool rest_of_watchdog(Clock::duration duration) {
  if (role != Role::watchdog || duration < kRest) return false;
  Watchdogs& w = watchdogs();
  {
    const std::lock_guard lock(w.mutex);
    this_watchdog()->given_up = true;
    w.passed.notify_all();
  }
  for (auto end = Clock::now() + duration; Clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    auto [e, lock] = locked_at_once();
    if (e.program_ended) end = std::min(end, Clock::now() + kDump);
  }
  return true;
}

void before_collectives() {
  let_watchdogs_look();
  auto [e, lock] = locked_at_once();
  if (e.schedule == Schedule::instant) ++e.news;
}

}  // namespace tidemark::device

void tidemark_device_program_ends() { tidemark::device::let_watchdogs_end(); }

int tidemark_device_waits_for_watchdog(const void* address, std::size_t bytes) {
  auto [e, lock] = tidemark::device::locked_at_once();
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto& last = tidemark::device::works().last;
  return std::any_of(last.lower_bound(begin), last.lower_bound(begin + bytes),
                     [&engine = e](const auto& one) {
                       return !tidemark::device::watchdog_sees(engine, one.second);
                     });
}

// In place of the C library's and libstdc++'s, for all libraries of the process.
EXPORTED int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                    const timespec* end) {
  static auto* const wait = tidemark::device::next<decltype(pthread_cond_timedwait)>(
      "pthread_cond_timedwait", "GLIBC_2.3.2");
  auto* const watchdog = tidemark::device::this_watchdog();
  if (!watchdog)
    return tidemark::device::wait_of_other(CLOCK_REALTIME, *end, [&](const timespec& until) {
      return wait(condition, mutex, &until);
    });
  return tidemark::device::sleep(*watchdog, condition, CLOCK_REALTIME, *end,
                                 [&] { return wait(condition, mutex, end); });
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                    clockid_t clock, const timespec* end) {
  static auto* const wait = tidemark::device::next<decltype(pthread_cond_clockwait)>(
      "pthread_cond_clockwait", "GLIBC_2.34");
  auto* const watchdog = tidemark::device::this_watchdog();
  if (!watchdog)
    return tidemark::device::wait_of_other(
        clock, *end, [&](const timespec& until) { return wait(condition, mutex, clock, &until); });
  return tidemark::device::sleep(*watchdog, condition, clock, *end,
                                 [&] { return wait(condition, mutex, clock, end); });
}

// The watchdog of a new process group may begin late on a busy machine.
void std::thread::_M_start_thread(_State_ptr state, void (*depend)()) {
  using Start = void (*)(std::thread*, _State_ptr, void (*)());
  static const auto start = reinterpret_cast<Start>(dlsym(
      RTLD_NEXT,
      "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"));
  const _State& program = *state;
  const std::string_view kind = typeid(program).name();
  if (tidemark::device::is_worker_loop(kind))
    return tidemark::device::start_worker([&] {
      start(this, std::move(state), depend);
      return native_handle();
    });
  if (kind.find("ProcessGroupNCCL8WatchdogEFvv") == kind.npos &&
      kind.find("ProcessGroupNCCLEFvv") == kind.npos) {  // before torch 2.8
    return start(this, std::move(state), depend);
  }
  auto& w = tidemark::device::watchdogs();
  const std::lock_guard lock(w.mutex);
  start(this, std::move(state), depend);
  w.starting.push_back(native_handle());
  w.changed();
}

namespace std::chrono {
inline namespace _V2 {

system_clock::time_point system_clock::now() noexcept {
  return time_point(duration(tidemark::device::read(CLOCK_REALTIME) + tidemark::device::ahead));
}

steady_clock::time_point steady_clock::now() noexcept {
  return time_point(duration(tidemark::device::read(CLOCK_MONOTONIC) +
                             std::exchange(tidemark::device::ahead, 0)));
}

}  // namespace _V2
}  // namespace std::chrono
