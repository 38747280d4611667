#include "harness/virtual/device/event.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/event_table.h"
#include "harness/virtual/device/host_limit.h"
#include "harness/virtual/device/patience.h"
#include "harness/virtual/device/pool.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {
namespace {

void record(Engine& e, Event& event, Stream& s) {
  event.record = e.mark(s);
  // An idle stream reaches the record when the host has put it there.
  event.record.time = std::max(event.record.time, e.now);
  event.recorded = true;
  event.holder = s.holds_records ? &s : nullptr;
  if (event.holder != nullptr) event.held = ++s.records;
  note_event(s, &event - table().events.data(), event.record.time);
  if (!event.shared) return;
  SharedEntry& entry = *event.shared->entry;
  entry.time = event.record.time;
  entry.writer = getpid();
  event.shared->seen = ++entry.carried;
}

/// Takes over the latest record, if another process has made it.
void look_at_others(Engine& e, Event& event) {
  if (!event.shared) return;
  SharedEvent& shared = *event.shared;
  const std::uint64_t carried = shared.entry->carried;
  const bool there = shared.entry->serial == shared.handle.serial;
  if (!there || carried == shared.seen || shared.entry->writer == getpid()) return;
  shared.seen = carried;
  if (!shared.others) {
    shared.others = &e.add_stream(-1, 0, 0, false);
    shared.others->destroyed = true;  // no program has its handle
  }
  Stream& others = *shared.others;
  others.clock.raise(others.index, ++others.count);
  others.tail = std::max(others.tail, shared.entry->time.load());
  event.record = {others.clock, others.tail};
  event.recorded = true;
}

/// The host has waited for the latest record: the other processes may hear of that.
void tell_others(const Event& event) {
  if (event.shared && event.shared->entry->serial == event.shared->handle.serial)
    event.shared->entry->waited_for = event.shared->seen;
}

/// True if another process has waited for the record that this one knows as the latest.
bool others_have_waited(const Event& event) {
  return event.shared && event.shared->seen > 0 &&
         event.shared->entry->waited_for == event.shared->seen;
}

/// True if another process has called a record that is not carried out: it waits for the partners
/// of a collective.
bool others_defer(const SharedEvent& shared) {
  return shared.entry->serial == shared.handle.serial && shared.entry->caller != getpid() &&
         shared.entry->called > shared.entry->carried;
}

/// Comes before a wait, with no lock held: waits until the records that other processes have called
/// are carried out.
cudaError_t await_record_of_others(EventHandle handle) {
  std::shared_ptr<SharedEvent> shared;
  {
    auto [e, lock] = locked_at_once();
    if (const Event* const event = table().find(handle)) shared = event->shared;
  }
  if (!shared) return cudaSuccess;
  const std::int32_t caller = shared->entry->caller;
  const auto start = std::chrono::steady_clock::now();
  while (others_defer(*shared)) {
    const bool ended = kill(caller, 0) != 0 && errno == ESRCH;
    if (ended || std::chrono::steady_clock::now() - start > patience()) {
      say_once("process " + std::to_string(caller) +
               " has recorded an event after a collective, and " +
               (ended ? "has ended before the collective did"
                      : "the collective has not ended within TIDEMARK_TIMEOUT"));
      return ended ? cudaErrorInvalidResourceHandle : cudaErrorTimeout;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return cudaSuccess;
}

void wait(Engine& e, Stream& s, Event& event) {
  look_at_others(e, event);
  if (!event.recorded) return;
  const Ns from = std::max(s.tail, e.now);
  e.order_after(s, event.record);
  if (e.tracing && s.tail > from)
    e.trace.push_back({"wait for an event", s.index, from, s.tail, e.now, Kind::wait});
  note_stream_wait(s, &event - table().events.data(), from);
}

/// A wait of a stream in a capture, or for an event of one.
cudaError_t wait_in_capture(Stream& s, EventHandle handle, const Event& event, bool external) {
  if (!event.capture) {
    if (external)
      return capture(s, {.type = cudaGraphNodeTypeWaitEvent,
                         .run = [handle](StreamHandle to) { wait_event(to, handle); }});
    return event.recorded ? s.capture->refuse(cudaErrorStreamCaptureIsolation) : cudaSuccess;
  }
  Capture& c = *event.capture;
  if (c.ended)
    return s.capture ? s.capture->refuse(cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
  if (c.invalid) return cudaErrorStreamCaptureInvalidated;
  if (s.legacy) return c.refuse(cudaErrorStreamCaptureImplicit);
  if (s.capture && s.capture != event.capture) {
    s.capture->invalid = true;
    return c.refuse(cudaErrorStreamCaptureMerge);
  }
  if (!s.capture) {
    s.capture = event.capture;
    s.capture_ends.clear();
    c.streams.push_back(&s);
  }
  for (CUgraphNode_st* const node : event.capture_ends)
    if (std::ranges::find(s.capture_ends, node) == s.capture_ends.end())
      s.capture_ends.push_back(node);
  return cudaSuccess;
}

/// Error of a question about an event that only a graph records, or that a capture forbids.
cudaError_t question_in_capture(const Event& event) {
  if (event.capture) {
    if (!event.capture->ended) event.capture->invalid = true;
    return cudaErrorCapturedEvent;
  }
  return unsafe_in_capture(nullptr);
}

bool is_deferred(EventHandle handle) {
  auto [e, lock] = locked_at_once();
  const Event* const event = table().find(handle);
  return event && event->deferred > 0;
}

/// Comes before a call about an event and a stream, with no lock held: waits for what other threads
/// have called that concerns them and is not carried out.
void await_others(EventHandle handle, StreamHandle stream) {
  if (steps_left == 0 || is_deferring() || carries_step_out()) return;
  is_deferred(handle) ? settle() : settle(stream);
}

/// Comes before the host waits for the event: what was called after its record may wait for
/// partners that wait for this host.
void settle_but_for(EventHandle event) {
  if (steps_left == 0 || carries_step_out()) return;
  if (is_deferred(event) || settle_for_a_while()) settle();
}

/// Carries out `act` on the engine and the event, now or in its turn.
template <class Act>
void in_turn(Engine& e, std::unique_lock<std::mutex>& lock, EventHandle handle, StreamHandle stream,
             Event& event, Act act) {
  if (!is_deferring()) return act(e, event);
  lock.unlock();
  defer(stream, [handle, act] {
    auto [engine, inner_lock] = locked();
    if (Event* const live_event = table().find(handle)) act(engine, *live_event);
    return true;
  });
}

}  // namespace

std::size_t live_events() { return table().events.size() - table().unused.size(); }

cudaError_t create_event(EventHandle* event, unsigned flags) {
  auto [e, lock] = locked_at_once();
  if (!event || (flags & ~7u) ||
      ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming))) {
    return cudaErrorInvalidValue;
  }
  if (e.devices == 0) return cudaErrorNoDevice;
  std::shared_ptr<SharedEvent> shared;
  if (flags & cudaEventInterprocess) {
    shared = std::make_shared<SharedEvent>();
    shared->entry = share(shared->handle);
    if (!shared->entry) host_refuses("memory that processes share", sizeof(SharedEvent));
  }
  *event = table().add(flags, current_device(), std::move(shared));
  return cudaSuccess;
}

cudaError_t share_event(cudaIpcEventHandle_t* to, EventHandle event) {
  if (!to) return cudaErrorInvalidValue;
  auto [e, lock] = locked_at_once();
  const Event* const event_state = table().find(event);
  if (!event_state || !event_state->shared) return cudaErrorInvalidResourceHandle;
  SharedHandle handle = event_state->shared->handle;
  handle.now = e.now;
  std::memset(to, 0, sizeof *to);
  std::memcpy(to, &handle, sizeof handle);
  return cudaSuccess;
}

cudaError_t open_event(EventHandle* event, const cudaIpcEventHandle_t& from) {
  if (!event) return cudaErrorInvalidValue;
  auto shared = std::make_shared<SharedEvent>();
  std::memcpy(&shared->handle, &from, sizeof shared->handle);
  if (is_mine(shared->handle)) return cudaErrorDeviceUninitialized;
  shared->owner = find_process(shared->handle);
  if (!shared->owner) return cudaErrorInvalidResourceHandle;
  shared->entry = &shared->owner->table[shared->handle.entry];
  auto [e, lock] = locked_at_once();
  if (e.devices == 0) return cudaErrorNoDevice;
  e.now = std::max(e.now, shared->handle.now);
  *event = table().add(cudaEventInterprocess | cudaEventDisableTiming, current_device(),
                       std::move(shared));
  return cudaSuccess;
}

cudaError_t destroy_event(EventHandle event) {
  auto [e, lock] = locked_at_once();
  Event* event_state = table().find(event);
  if (!event_state) return cudaErrorInvalidResourceHandle;
  in_turn(e, lock, event, kNoStream, *event_state, [](Engine&, Event& one) {
    one.alive = false;
    one.shared = nullptr;
    ++one.generation;
    table().unused.push_back(static_cast<std::uint32_t>(&one - table().events.data()));
  });
  return cudaSuccess;
}

cudaError_t record_event(EventHandle event, StreamHandle stream, bool external) {
  await_others(event, stream);
  auto [e, lock] = locked_at_once();
  Event* event_state = table().find(event);
  Stream* s = e.find(stream);
  if (!event_state || !s || event_state->device != s->device) return cudaErrorInvalidResourceHandle;
  count_activity(e, true);
  if (s->capture) {
    if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (external)
      return capture(*s, {.type = cudaGraphNodeTypeEventRecord,
                          .run = [event](StreamHandle to) { record_event(event, to); }});
    event_state->capture = s->capture;
    event_state->capture_ends = s->capture_ends;
    return cudaSuccess;
  }
  if (const cudaError_t error = implicit_in_capture(*s)) return error;
  event_state->capture = nullptr;
  event_state->capture_ends.clear();
  ++event_state->deferred;
  if (event_state->shared) {
    event_state->shared->entry->caller = getpid();
    ++event_state->shared->entry->called;
  }
  in_turn(e, lock, event, stream, *event_state, [s](Engine& engine, Event& one) {
    --one.deferred;
    record(engine, one, *s);
  });
  return cudaSuccess;
}

cudaError_t wait_event(StreamHandle stream, EventHandle event, bool external) {
  await_others(event, stream);
  if (const cudaError_t error = await_record_of_others(event)) return error;
  auto [e, lock] = locked_at_once();
  Event* event_state = table().find(event);
  Stream* s = e.find(stream);
  if (!event_state || !s) return cudaErrorInvalidResourceHandle;
  count_activity(e, true);
  if (s->capture || event_state->capture) return wait_in_capture(*s, event, *event_state, external);
  if (const cudaError_t error = implicit_in_capture(*s)) return error;
  in_turn(e, lock, event, stream, *event_state,
          [s](Engine& engine, Event& one) { wait(engine, *s, one); });
  return cudaSuccess;
}

cudaError_t query_event(EventHandle event) {
  before_poll();
  auto [e, lock] = locked_at_once();
  Event* event_state = table().find(event);
  if (!event_state) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = question_in_capture(*event_state)) return error;
  if (event_state->deferred > 0 || (event_state->shared && others_defer(*event_state->shared)))
    return cudaErrorNotReady;
  look_at_others(e, *event_state);
  if (!event_state->recorded) return cudaSuccess;
  if (const Stream* holder = event_state->holder; holder && holder->released < event_state->held)
    return cudaErrorNotReady;
  const Mark record = event_state->record;
  if (others_have_waited(*event_state)) {
    if (drives_device(e)) e.complete(record);
    return cudaSuccess;
  }
  return poll(lock, record) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronise_event(EventHandle event) {
  if (const cudaError_t error = await_record_of_others(event)) return error;
  settle_but_for(event);
  auto [e, lock] = locked_at_once();
  Event* event_state = table().find(event);
  if (!event_state) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = question_in_capture(*event_state)) return error;
  look_at_others(e, *event_state);
  if (!event_state->recorded) return cudaSuccess;
  const int device = event_state->device;
  const Mark record = event_state->record;
  if (Stream* const holder = event_state->holder)
    holder->released = std::max(holder->released, event_state->held);
  tell_others(*event_state);
  synchronise_with(lock, record);
  release_pool_memory(device);
  return cudaSuccess;
}

cudaError_t elapsed_time(float* milliseconds, EventHandle start, EventHandle end) {
  settle_for_a_while();
  auto [e, lock] = locked_at_once();
  if (!milliseconds) return cudaErrorInvalidValue;
  const Event* a = table().find(start);
  const Event* b = table().find(end);
  if (!a || !b || !a->recorded || !b->recorded || a->device != b->device ||
      ((a->flags | b->flags) & cudaEventDisableTiming)) {
    return cudaErrorInvalidResourceHandle;
  }
  if (a->deferred + b->deferred > 0) return cudaErrorNotReady;
  if (!seems_done(e, a->record) || !seems_done(e, b->record)) return cudaErrorNotReady;
  if (drives_device(e)) e.learn(b->record);
  *milliseconds = static_cast<float>(static_cast<double>(b->record.time - a->record.time) * 1e-6);
  return cudaSuccess;
}

void reset_event_times() {
  for (Event& event : table().events) event.record.time = 0;
}

}  // namespace tidemark::device
