#include "harness/virtual/device/event.h"

#include <algorithm>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/pool.h"

namespace tidemark::device {
namespace {

struct Event {
  unsigned flags = 0;
  int device = 0;
  std::uint32_t generation = 0;
  bool alive = false, recorded = false;
  Mark record = {};
  std::size_t deferred = 0;                        // records that are to be carried out
  std::shared_ptr<Capture> capture = nullptr;      // that the latest record belongs to,
  std::vector<CUgraphNode_st*> capture_ends = {};  // and what it comes after there
};

// Handles count up and carry a generation, so that a destroyed event is an error and not another
// event.
struct Table {
  std::vector<Event> events;
  std::vector<std::uint32_t> unused;

  Event* find(EventHandle handle) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    const std::uintptr_t slot = ((value & 0xffffffffu) >> 4) - 1;
    if (value % 16 != 8 || slot >= events.size()) return nullptr;
    Event& event = events[slot];
    return event.alive && event.generation == value >> 32 ? &event : nullptr;
  }
};

Table& table() { return immortal<Table>(); }

void record(Engine& e, Event& event, Stream& s) {
  event.record = e.mark(s);
  // An idle stream reaches the record when the host has put it there.
  event.record.time = std::max(event.record.time, e.now);
  event.recorded = true;
}

void wait(Engine& e, Stream& s, const Event& event) {
  if (!event.recorded) return;
  const Ns from = std::max(s.tail, e.now);
  e.order_after(s, event.record);
  if (e.tracing && s.tail > from)
    e.trace.push_back({"wait for an event", s.index, from, s.tail, e.now, Kind::wait});
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

/// Comes before a call about an event and a stream, with no lock held: waits for what other threads
/// have called that concerns them and is not carried out.
void await_others(EventHandle handle, StreamHandle stream) {
  if (steps_left == 0 || is_deferring() || carries_step_out()) return;
  const bool event_waits = [&] {
    auto [e, lock] = locked_at_once();
    const Event* const event = table().find(handle);
    return event && event->deferred > 0;
  }();
  event_waits ? settle() : settle(stream);
}

/// Carries out `act` on the engine and the event, now or in its turn.
template <class Act>
void in_turn(Engine& e, std::unique_lock<std::mutex>& lock, EventHandle handle, StreamHandle stream,
             Event& event, Act act) {
  if (!is_deferring()) return act(e, event);
  lock.unlock();
  defer(stream, [handle, act] {
    auto [engine, held] = locked();
    if (Event* const found = table().find(handle)) act(engine, *found);
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
  if (flags & cudaEventInterprocess) {
    not_supported("libcudart", "cudaEventCreateWithFlags(cudaEventInterprocess)");
    return cudaErrorNotSupported;
  }
  if (e.devices == 0) return cudaErrorNoDevice;
  Table& t = table();
  if (t.unused.empty()) {
    t.unused.push_back(static_cast<std::uint32_t>(t.events.size()));
    t.events.emplace_back();
  }
  const std::uint32_t slot = t.unused.back();
  t.unused.pop_back();
  Event& made = t.events[slot];
  made = {.flags = flags, .device = current_device(), .generation = made.generation, .alive = true};
  *event = reinterpret_cast<EventHandle>(std::uintptr_t{made.generation} << 32 |
                                         (std::uintptr_t{slot} + 1) << 4 | 8);
  return cudaSuccess;
}

cudaError_t destroy_event(EventHandle event) {
  auto [e, lock] = locked_at_once();
  Event* found = table().find(event);
  if (!found) return cudaErrorInvalidResourceHandle;
  in_turn(e, lock, event, nullptr, *found, [](Engine&, Event& one) {
    one.alive = false;
    ++one.generation;
    table().unused.push_back(static_cast<std::uint32_t>(&one - table().events.data()));
  });
  return cudaSuccess;
}

cudaError_t record_event(EventHandle event, StreamHandle stream, bool external) {
  await_others(event, stream);
  auto [e, lock] = locked_at_once();
  Event* found = table().find(event);
  Stream* s = e.find(stream);
  if (!found || !s || found->device != s->device) return cudaErrorInvalidResourceHandle;
  count_activity(e, true);
  if (s->capture) {
    if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (external)
      return capture(*s, {.type = cudaGraphNodeTypeEventRecord,
                          .run = [event](StreamHandle to) { record_event(event, to); }});
    found->capture = s->capture;
    found->capture_ends = s->capture_ends;
    return cudaSuccess;
  }
  if (const cudaError_t error = implicit_in_capture(*s)) return error;
  found->capture = nullptr;
  found->capture_ends.clear();
  ++found->deferred;
  in_turn(e, lock, event, stream, *found, [s](Engine& engine, Event& one) {
    --one.deferred;
    record(engine, one, *s);
  });
  return cudaSuccess;
}

cudaError_t wait_event(StreamHandle stream, EventHandle event, bool external) {
  await_others(event, stream);
  auto [e, lock] = locked_at_once();
  Event* found = table().find(event);
  Stream* s = e.find(stream);
  if (!found || !s) return cudaErrorInvalidResourceHandle;
  count_activity(e, true);
  if (s->capture || found->capture) return wait_in_capture(*s, event, *found, external);
  if (const cudaError_t error = implicit_in_capture(*s)) return error;
  in_turn(e, lock, event, stream, *found,
          [s](Engine& engine, const Event& one) { wait(engine, *s, one); });
  return cudaSuccess;
}

cudaError_t query_event(EventHandle event) {
  before_poll();
  auto [e, lock] = locked_at_once();
  const Event* found = table().find(event);
  if (!found) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = question_in_capture(*found)) return error;
  if (found->deferred > 0) return cudaErrorNotReady;
  if (!found->recorded) return cudaSuccess;
  const Mark record = found->record;
  return poll(lock, record) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronise_event(EventHandle event) {
  auto [e, lock] = locked();
  const Event* found = table().find(event);
  if (!found) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = question_in_capture(*found)) return error;
  if (!found->recorded) return cudaSuccess;
  const int device = found->device;
  const Mark record = found->record;
  synchronise_with(lock, record);
  release_pool_memory(device);
  return cudaSuccess;
}

cudaError_t elapsed_time(float* milliseconds, EventHandle start, EventHandle end) {
  auto [e, lock] = locked();
  if (!milliseconds) return cudaErrorInvalidValue;
  const Event* a = table().find(start);
  const Event* b = table().find(end);
  if (!a || !b || !a->recorded || !b->recorded || a->device != b->device ||
      ((a->flags | b->flags) & cudaEventDisableTiming)) {
    return cudaErrorInvalidResourceHandle;
  }
  if (!seems_done(e, a->record) || !seems_done(e, b->record)) return cudaErrorNotReady;
  if (drives_device(e)) e.learn(b->record);
  *milliseconds = static_cast<float>(static_cast<double>(b->record.time - a->record.time) * 1e-6);
  return cudaSuccess;
}

void reset_event_times() {
  for (Event& event : table().events) event.record.time = 0;
}

}  // namespace tidemark::device
