#include "harness/virtual/device/activity.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"

namespace tidemark::device {

std::atomic<std::uint32_t> profiled{0};

namespace {

struct Recorded {
  std::mutex mutex;
  Activities activities;
  Profiler profiler;
  TraceNames names;
  std::uint32_t window = 0;
  std::atomic<std::uint32_t> last_call{0};
};
Recorded& recorded() { return immortal<Recorded>(); }

bool records(Profiled what) { return (profiled.load(std::memory_order_relaxed) & what) != 0; }

std::uint64_t profiler_now() {
  auto* const now = recorded().profiler.now;
  return now ? now() : 0;
}

thread_local CurrentCall call_of_thread;
thread_local ProfiledCall call_record;
thread_local std::array<std::vector<std::uint64_t>, ProfiledCall::kMarks> marks_of_thread;

}  // namespace

CurrentCall& current_call() { return call_of_thread; }

void set_profiler(const Profiler& profiler) {
  const std::lock_guard lock(recorded().mutex);
  recorded().profiler = profiler;
}

Activities take_activities() {
  Recorded& r = recorded();
  const std::lock_guard lock(r.mutex);
  return std::exchange(r.activities, {});
}

void look_at_operations(std::size_t from, void (*look)(const ProfiledOperation&, void*),
                        void* data) {
  Recorded& r = recorded();
  const std::lock_guard lock(r.mutex);
  for (std::size_t i = from; i < r.activities.operations.size(); ++i)
    look(r.activities.operations[i], data);
}

void begin_profile_window() {
  const std::lock_guard lock(recorded().mutex);
  ++recorded().window;
}

void push_mark(std::size_t kind, std::uint64_t id) { marks_of_thread[kind].push_back(id); }

bool pop_mark(std::size_t kind, std::uint64_t* id) {
  std::vector<std::uint64_t>& marks = marks_of_thread[kind];
  if (marks.empty()) return false;
  if (id) *id = marks.back();
  marks.pop_back();
  return true;
}

bool begin_call(Api api, const char* function) {
  if (call_of_thread.id != 0 || carries_step_out()) return false;
  Recorded& r = recorded();
  std::uint32_t id = ++r.last_call;
  if (id == 0) id = ++r.last_call;  // it has gone round
  call_record = {.function = function,
                 .api = api,
                 .id = id,
                 .thread = static_cast<std::uint32_t>(pthread_self()),
                 .begin = profiler_now()};
  for (std::size_t kind = 0; kind < ProfiledCall::kMarks; ++kind) {
    if (marks_of_thread[kind].empty()) continue;
    call_record.marked |= 1u << kind;
    call_record.marks[kind] = marks_of_thread[kind].back();
  }
  call_of_thread = {id, call_record.begin};
  if (records(kProfileCallbacks) && r.profiler.called) r.profiler.called(call_record, false);
  return true;
}

void end_call() {
  Recorded& r = recorded();
  call_record.end = profiler_now();
  if (records(kProfileCallbacks) && r.profiler.called) r.profiler.called(call_record, true);
  call_of_thread = {};
  if (!records(kProfileCalls) && !records(kProfileOperations)) return;
  const std::lock_guard lock(r.mutex);
  r.activities.calls.push_back(call_record);
}

void note_operation(const TraceEntry& entry, int device, std::uint32_t stream, const Work& work) {
  if (!records(kProfileOperations) || work.type == Work::Type::unnamed) return;
  Recorded& r = recorded();
  const std::lock_guard lock(r.mutex);
  r.activities.operations.push_back({.name = r.names.of(entry.name),
                                     .work = work,
                                     .device = device,
                                     .stream = stream,
                                     .call = call_of_thread.id,
                                     .window = r.window,
                                     .called = call_of_thread.begin,
                                     .begin = entry.start,
                                     .end = entry.end});
}

void lengthen_operation(int device, std::uint32_t stream, Ns end) {
  if (!records(kProfileOperations)) return;
  Recorded& r = recorded();
  const std::lock_guard lock(r.mutex);
  if (r.activities.operations.empty()) return;
  ProfiledOperation& last = r.activities.operations.back();
  if (last.device == device && last.stream == stream && last.work.type <= Work::Type::fill)
    last.end = end;
}

namespace {
void note(const Stream& s, std::ptrdiff_t number, Work::Type type, Ns begin, Ns end) {
  note_operation({"event", s.index, begin, end, begin}, s.device, s.legacy ? 0 : s.index,
                 {.type = type, .value = static_cast<std::uint32_t>(number) + 1});
}
}  // namespace

void note_event(const Stream& stream, std::ptrdiff_t number, Ns time) {
  note(stream, number, Work::Type::record, time, time);
}
void note_stream_wait(const Stream& stream, std::ptrdiff_t number, Ns begin) {
  note(stream, number, Work::Type::stream_wait, begin, std::max(begin, stream.tail));
}

void note_device_wait(Ns end) {
  if (records(kProfileOperations) && recorded().profiler.waited) recorded().profiler.waited(end);
}

}  // namespace tidemark::device
