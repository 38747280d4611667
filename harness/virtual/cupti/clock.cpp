#include "harness/virtual/cupti/clock.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include "harness/virtual/device/immortal.h"

namespace tidemark::cupti {
namespace {

using device::Ns;
constexpr Ns kSecond = 1'000'000'000, kLeast = kSecond / 1000;
constexpr Ns kMostWaited = 60 * kSecond, kTold = 2 * kSecond;
constexpr Ns kMargin = 20'000;  // by which two measurements of a moment may differ
constexpr Ns kRounding = 100;   // of the profiler's own conversion of ticks

Ns real_now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

/// A moment on the profiler's clock and in nanoseconds since 1970.
struct Moment {
  std::uint64_t ticks = 0;
  Ns real = 0;
};

Moment moment() {
  Moment best;
  std::uint64_t shortest = ~std::uint64_t{0};
  for (int i = 0; i < 16; ++i) {  // the reading that was disturbed least
    const std::uint64_t before = now();
    const Ns real = real_now();
    const std::uint64_t lasted = now() - before;
    if (lasted >= shortest) continue;
    shortest = lasted;
    best = {before + lasted / 2, real};
  }
  return best;
}

struct State {
  std::mutex mutex;
  Moment begin;
  double ticks_per_ns = 1;
  std::map<std::uint32_t, Ns> distances;  // by window; from the virtual clock to ns since `begin`
  std::size_t seen = 0;                   // operations that were taken in and not taken away

  Ns since_begin(std::uint64_t ticks) const {
    return static_cast<Ns>(static_cast<double>(static_cast<std::int64_t>(ticks - begin.ticks)) /
                           ticks_per_ns);
  }
  void measure() {
    Moment m = moment();
    while (m.real - begin.real < kLeast) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kLeast));
      m = moment();
    }
    ticks_per_ns =
        static_cast<double>(m.ticks - begin.ticks) / static_cast<double>(m.real - begin.real);
  }
  void take_in(const device::ProfiledOperation& op) {
    if (op.called == 0) return;
    const Ns least = since_begin(op.called) - op.begin + kRounding;
    const auto [known, is_new] = distances.try_emplace(op.window, least);
    if (!is_new) known->second = std::max(known->second, least);
  }
};
State& state() { return device::immortal<State>(); }
std::atomic<std::uint64_t (*)()> registered{nullptr};

}  // namespace

std::uint64_t now() {
  auto* const clock = registered.load(std::memory_order_relaxed);
  return clock ? clock() : static_cast<std::uint64_t>(real_now());
}
void set_clock(std::uint64_t (*clock)()) { registered = clock; }

void begin_clock() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.begin = moment();
  s.distances.clear();
  s.seen = 0;
}

void wait_in_real_time(Ns end) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.measure();
  const auto take_in = [](const device::ProfiledOperation& op, void* to) {
    static_cast<State*>(to)->take_in(op);
    ++static_cast<State*>(to)->seen;
  };
  device::look_at_operations(s.seen, take_in, &s);
  if (s.distances.empty()) return;
  const Ns reached = s.since_begin(now());
  const Ns left = end + s.distances.rbegin()->second + kMargin + reached / 10'000 - reached;
  if (left <= 0) return;
  if (left > kTold)
    std::fprintf(
        stderr, "tidemark: a profile is recorded: the host waits %.1f s for the virtual device%s\n",
        static_cast<double>(std::min(left, kMostWaited)) / kSecond,
        left > kMostWaited ? ", and not longer: the profile lacks what ends later" : "");
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left, kMostWaited)));
}

DeviceClock::DeviceClock(const std::vector<device::ProfiledOperation>& operations) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.seen = 0;
  if (operations.empty()) return;
  s.measure();
  for (const device::ProfiledOperation& op : operations) s.take_in(op);
  begin_ = s.begin.ticks;
  ticks_per_ns_ = s.ticks_per_ns;
  distances_ = s.distances;
}

std::uint64_t DeviceClock::of(Ns time, std::uint32_t window) const {
  const auto entry = distances_.find(window);
  const Ns distance = entry == distances_.end() ? 0 : entry->second;
  return begin_ + static_cast<std::uint64_t>(
                      std::max(0.0, static_cast<double>(time + distance) * ticks_per_ns_));
}

}  // namespace tidemark::cupti
