#include "harness/virtual/device/event.h"

#include <algorithm>
#include <vector>

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
  Mark record;
  std::size_t deferred = 0;  // records that are to be carried out
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

/// Carries out `act` on the engine and the event, now or in its turn.
template <class Act>
void in_turn(Engine& e, std::unique_lock<std::mutex>& lock, EventHandle handle, Event& event,
             Act act) {
  if (!is_deferring()) return act(e, event);
  lock.unlock();
  defer([handle, act] {
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
  made = {flags, current_device(), made.generation, true, false, {}};
  *event = reinterpret_cast<EventHandle>(std::uintptr_t{made.generation} << 32 |
                                         (std::uintptr_t{slot} + 1) << 4 | 8);
  return cudaSuccess;
}

cudaError_t destroy_event(EventHandle event) {
  auto [e, lock] = locked_at_once();
  Event* found = table().find(event);
  if (!found) return cudaErrorInvalidResourceHandle;
  in_turn(e, lock, event, *found, [](Engine&, Event& one) {
    one.alive = false;
    ++one.generation;
    table().unused.push_back(static_cast<std::uint32_t>(&one - table().events.data()));
  });
  return cudaSuccess;
}

cudaError_t record_event(EventHandle event, StreamHandle stream) {
  auto [e, lock] = locked_at_once();
  Event* found = table().find(event);
  Stream* s = e.find(stream);
  if (!found || !s || found->device != s->device) return cudaErrorInvalidResourceHandle;
  count_activity(e, true);
  ++found->deferred;
  in_turn(e, lock, event, *found, [s](Engine& engine, Event& one) {
    --one.deferred;
    record(engine, one, *s);
  });
  return cudaSuccess;
}

cudaError_t wait_event(StreamHandle stream, EventHandle event) {
  auto [e, lock] = locked_at_once();
  Event* found = table().find(event);
  Stream* s = e.find(stream);
  if (!found || !s) return cudaErrorInvalidResourceHandle;
  count_activity(e, true);
  in_turn(e, lock, event, *found, [s](Engine& engine, const Event& one) { wait(engine, *s, one); });
  return cudaSuccess;
}

cudaError_t query_event(EventHandle event) {
  before_poll();
  auto [e, lock] = locked_at_once();
  const Event* found = table().find(event);
  if (!found) return cudaErrorInvalidResourceHandle;
  if (found->deferred > 0) return cudaErrorNotReady;
  if (!found->recorded) return cudaSuccess;
  const Mark record = found->record;
  return poll(lock, record) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronise_event(EventHandle event) {
  auto [e, lock] = locked();
  const Event* found = table().find(event);
  if (!found) return cudaErrorInvalidResourceHandle;
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
  if (!e.is_done(a->record) || !e.is_done(b->record)) return cudaErrorNotReady;
  e.learn(b->record);
  *milliseconds = static_cast<float>(static_cast<double>(b->record.time - a->record.time) * 1e-6);
  return cudaSuccess;
}

void reset_event_times() {
  for (Event& event : table().events) event.record.time = 0;
}

}  // namespace tidemark::device
