#include "harness/virtual/device/stream.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/idle.h"
#include "harness/virtual/device/pool.h"
#include "harness/virtual/device/race_detector.h"
#include "harness/virtual/device/watchdog.h"

namespace tidemark::device {
namespace {
// A program that only polls is waiting. After so many not-ready answers with nothing enqueued in
// between, queries begin to cost more and more; where no time helps (lagging, or a thread whose
// polls are free), so many are a synchronisation.
constexpr std::uint64_t kPatience = 1024, kWaiting = 4096;
constexpr std::uint64_t kMany = 1 << 20;  // polls of other marks after which one is given up

// The clock's number (Engine::epoch) on which this thread last gave the device work.
thread_local std::uint64_t driven_epoch = 0;

long voluntary_switches() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

/// Polls, from some moment on, of a thread that does not drive the device.
struct Polls {
  Mark first;  // the mark that was polled first,
  Mark all;    // and all that have been
  std::uint64_t count = 0, of_first = 0;

  void add(const Mark& mark) {
    if (count++ == 0) first = all = mark;
    of_first += mark.time == first.time && mark.clock.entries() == first.clock.entries();
    all.merge(mark);
  }
};

/// True if such a thread waits for what it polls, while no other thread drives the device.
/// PyTorch's watchdog looks at all works of a process group ten times a second and waits for none,
/// but at the end of the group it looks at them without a pause until all are done.
struct IdlePolls {
  std::uint64_t activity = 0;  // of the device, when the counts began
  long switches = 0;
  Polls idle, without_pause;

  const Mark* waits_for(const Mark& mark, std::uint64_t activity_now) {
    const bool active = std::exchange(activity, activity_now) != activity_now;
    const long now = voluntary_switches();
    if (std::exchange(switches, now) != now || active) without_pause = {};
    if (active || idle.count == kMany * (idle.of_first + 1)) idle = {};
    idle.add(mark);
    without_pause.add(mark);
    if (without_pause.count >= kWaiting && without_pause.of_first > 1) return &without_pause.all;
    return idle.of_first >= kWaiting ? &idle.first : nullptr;
  }
};
thread_local IdlePolls idle_polls;
}  // namespace

bool drives_device(const Engine& e) { return driven_epoch == e.epoch; }

bool has_driven_device() { return driven_epoch != 0; }

bool seems_done(Engine& e, const Mark& mark) {
  if (drives_device(e)) return e.is_done(mark);
  if (is_watchdog() ? watchdog_sees(e, mark) : e.is_done(mark)) return true;
  return is_left_alone(e, mark);
}

void count_activity(Engine& e, bool enqueued) {
  ++e.activity;
  if (carries_step_out()) return;  // for a thread that has counted it
  if (!enqueued) return;
  // A forked process may not use the device, and may have been forked under the engine's lock.
  static const int at_fork = pthread_atfork(nullptr, nullptr, [] { driven_epoch = 0; });
  (void)at_fork;
  driven_epoch = e.epoch;
}

void pay_launch(Engine& e) {
  e.now += e.launch_cost();
  count_activity(e, true);
}

void synchronise_with(std::unique_lock<std::mutex>& lock, const Mark& mark) {
  if (callbacks_pending(mark.clock)) {
    lock.unlock();
    await_callbacks(mark.clock);
    lock.lock();
  }
  Engine& e = engine();
  e.now += e.profile.synchronise;
  ++e.synchronisations;
  count_activity(e, false);
  const Ns from = e.now;
  e.complete(mark);
  note_wait(mark);
  const TraceEntry entry{"synchronise", kHostLane, from, e.now, from, Kind::wait};
  if (e.tracing && e.now > from) e.trace.push_back(entry);
  note_operation(entry, current_device(), 0, {.type = Work::Type::wait});
}

void before_poll() {
  if (!is_deferring()) return;
  const bool drives = [] {
    auto [e, lock] = locked_at_once();
    return drives_device(e);
  }();
  if (drives) settle_for_a_while();
}

bool poll(std::unique_lock<std::mutex>& lock, const Mark& mark) {
  Engine& e = engine();
  if (callbacks_pending(mark.clock)) return false;
  if (!drives_device(e)) {  // a watchdog: its polls must not move the clock of those who work
    if (seems_done(e, mark)) {
      if (race::is_on() && !is_watchdog()) race::host_learned(mark.clock);
      return true;
    }
    const Mark* const waited = idle_polls.waits_for(mark, e.activity);
    if (waited == nullptr) return false;
    synchronise_with(lock, Mark(*waited));
    if (is_watchdog()) e.watched = e.now;
    return e.is_done(mark);
  }
  ++e.activity;
  e.now += e.profile.poll;
  // A query by a thread that enqueues work is a synchronisation for its later operations. A
  // watchdog's query is not.
  const auto learn_if_done = [&] {
    if (!e.is_done(mark)) return false;
    e.learn(mark);
    return true;
  };
  if (learn_if_done()) return true;
  if (++e.unready_polls > kPatience) {
    e.now += e.profile.poll << std::min<std::uint64_t>((e.unready_polls - kPatience) / 64, 30);
  }
  if (e.unready_polls < kWaiting) return learn_if_done();
  synchronise_with(lock, mark);
  return true;
}

cudaError_t create_stream(StreamHandle* stream, unsigned flags, int priority) {
  auto [e, lock] = locked_at_once();
  if (!stream || (flags & ~1u)) return cudaErrorInvalidValue;
  if (e.devices == 0) return cudaErrorNoDevice;
  const int clamped = std::clamp(priority, e.profile.highest_priority, e.profile.lowest_priority);
  *stream = e.add_stream(current_device(), clamped, flags, flags == 0).handle;
  return cudaSuccess;
}

cudaError_t destroy_stream(StreamHandle stream) {
  auto [e, lock, s] = locked(stream);
  if (!s || reinterpret_cast<std::uintptr_t>(stream) <= 2) return cudaErrorInvalidResourceHandle;
  if (s->capture) s->capture->invalid = true;
  s->destroyed = true;
  return cudaSuccess;
}

cudaError_t query_stream(StreamHandle stream) {
  before_poll();
  const bool is_delayed = is_held(stream);
  auto [e, lock] = locked_at_once();
  Stream* const s = e.find(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = unsafe_in_capture(s)) return error;
  if (is_delayed || is_deferring()) return cudaErrorNotReady;
  return poll(lock, e.mark(*s)) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronise_stream(StreamHandle stream) {
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = unsafe_in_capture(s)) return error;
  synchronise_with(lock, e.mark(*s));
  release_pool_memory(s->device);
  return cudaSuccess;
}

cudaError_t synchronise_device(int device) {
  auto [e, lock] = locked();
  if (invalidate_captures(device)) return cudaErrorStreamCaptureUnsupported;
  synchronise_with(lock, e.mark_all(device));
  release_pool_memory(device);
  const Ns end = e.now;
  lock.unlock();
  note_device_wait(end);
  return cudaSuccess;
}

template <class T, class Get>
cudaError_t read_stream(StreamHandle stream, T* out, Get get) {
  auto [e, lock] = locked_at_once();
  if (!out) return cudaErrorInvalidValue;
  const Stream* s = e.find(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  *out = get(*s);
  return cudaSuccess;
}

cudaError_t stream_priority(StreamHandle stream, int* priority) {
  return read_stream(stream, priority, [](const Stream& s) { return s.priority; });
}
cudaError_t stream_flags(StreamHandle stream, unsigned* flags) {
  return read_stream(stream, flags, [](const Stream& s) { return s.flags; });
}
cudaError_t stream_id(StreamHandle stream, unsigned long long* id) {
  return read_stream(stream, id,
                     [](const Stream& s) { return static_cast<unsigned long long>(s.index) + 1; });
}
cudaError_t stream_device(StreamHandle stream, int* device) {
  return read_stream(stream, device, [](const Stream& s) { return s.device; });
}

bool is_stream(StreamHandle stream) {
  auto [e, lock] = locked_at_once();
  return e.find(stream) != nullptr;
}

void priority_range(int* lowest, int* highest) {
  const Profile& p = engine().profile;
  if (lowest) *lowest = p.lowest_priority;
  if (highest) *highest = p.highest_priority;
}

int device_count() { return engine().devices; }
int current_device_index() { return current_device(); }

cudaError_t select_device(int device) {
  if (engine().devices == 0) return cudaErrorNoDevice;
  if (device < 0 || device >= engine().devices) return cudaErrorInvalidDevice;
  current_device() = device;
  return cudaSuccess;
}

}  // namespace tidemark::device
