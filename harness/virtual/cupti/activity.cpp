// CUPTI's activity interface, as profilers use it: kinds of records are enabled, buffers requested
// and handed back with records.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "harness/virtual/cupti/clock.h"
#include "harness/virtual/cupti/names.h"
#include "harness/virtual/cupti/records.h"
#include "harness/virtual/cupti/subscriber.h"
#include "harness/virtual/device/immortal.h"

namespace {

using namespace tidemark::cupti;
namespace device = tidemark::device;

using Request = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most);
using Complete = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t bytes, std::size_t valid);

struct Buffer {
  std::uint8_t* begin = nullptr;
  std::size_t bytes = 0, used = 0, most = 0, count = 0;
};

struct Session {
  std::mutex mutex;  // not held while the profiler's functions run
  std::mutex flush;  // one flush at a time
  Request request = nullptr;
  Complete complete = nullptr;
  Kinds kinds, recorded;                   // enabled now; enabled at some time since the last flush
  std::vector<std::uint32_t> left_out[3];  // by device::Api
  Buffer buffer;
  bool window_begun = false;
};
Session& session() { return device::immortal<Session>(); }

void set_profiled(const Kinds& kinds) {
  const bool calls = kinds[kRuntime] || kinds[kDriver];
  Kinds operations = kinds;
  operations.reset(kRuntime).reset(kDriver).reset(kExternalCorrelation).reset(kOverhead);
  const std::uint32_t bits =
      (calls ? device::kProfileCalls : 0u) | (operations.any() ? device::kProfileOperations : 0u);
  const std::uint32_t mask = device::kProfileCalls | device::kProfileOperations;
  std::uint32_t before = device::profiled.load();
  while (!device::profiled.compare_exchange_weak(before, (before & ~mask) | bits)) {
  }
}

/// Asks for a buffer, unless there is one. A profiler that has given none does not ask for records.
bool provide_buffer(Session& s) {
  if (s.buffer.begin) return true;
  if (!s.request) return false;
  Buffer fresh;
  s.request(&fresh.begin, &fresh.bytes, &fresh.most);
  if (!fresh.begin || fresh.bytes == 0) return false;
  s.buffer = fresh;
  return true;
}

void give_buffer_back(Session& s) {
  if (!s.buffer.begin) return;
  const Buffer full = std::exchange(s.buffer, {});
  if (s.complete) s.complete(nullptr, 0, full.begin, full.bytes, full.used);
}

bool fits(const Buffer& buffer, std::size_t bytes) {
  return bytes <= buffer.bytes - buffer.used && (buffer.most == 0 || buffer.count < buffer.most);
}

void write(Session& s, const Group& group) {
  // The records of a group stay together where they can.
  if (s.buffer.begin && s.buffer.used > 0 && !fits(s.buffer, group.size())) give_buffer_back(s);
  for (std::size_t at = 0; at < group.size();) {
    RecordKind kind{};
    std::memcpy(&kind, &group[at], sizeof kind);
    const std::size_t bytes = size_of(kind);
    if (s.buffer.begin && !fits(s.buffer, bytes)) give_buffer_back(s);
    if (!provide_buffer(s) || !fits(s.buffer, bytes)) return;  // the profiler wants no more
    std::memcpy(s.buffer.begin + s.buffer.used, &group[at], bytes);
    s.buffer.used += bytes;
    ++s.buffer.count;
    at += bytes;
  }
}

void flush() {
  Session& s = session();
  const std::lock_guard one_at_a_time(s.flush);
  Kinds kinds, now;
  {
    const std::lock_guard lock(s.mutex);
    kinds = s.recorded;
    now = s.recorded = s.kinds;
  }
  const device::Activities activities = device::take_activities();
  for (const Group& group : groups_of(activities, kinds, s.left_out)) write(s, group);
  give_buffer_back(s);
  // Kineto flushes only while it has given a buffer away.
  if (now.any()) provide_buffer(s);
}

Status set_function(device::Api api, std::uint32_t number, bool enable) {
  Session& s = session();
  const std::lock_guard lock(s.flush);
  std::vector<std::uint32_t>& without = s.left_out[static_cast<std::size_t>(api)];
  std::erase(without, number);
  if (!enable) without.push_back(number);
  return kSuccess;
}

}  // namespace

extern "C" {

Status cuptiActivityRegisterCallbacks(Request request, Complete complete) {
  if (!request || !complete) return kInvalidParameter;
  Session& s = session();
  const std::lock_guard lock(s.flush);
  s.request = request;
  s.complete = complete;
  return kSuccess;
}

Status cuptiActivityRegisterTimestampCallback(std::uint64_t (*clock)()) {
  if (!clock) return kInvalidParameter;
  set_clock(clock);
  return kSuccess;
}

Status cuptiGetTimestamp(std::uint64_t* time) {
  if (!time) return kInvalidParameter;
  *time = now();
  return kSuccess;
}

Status cuptiActivityEnable(RecordKind kind) {
  if (kind >= kKinds) return kInvalidKind;
  if (!is_recorded(kind)) {
    device::not_supported("libcupti", "cuptiActivityEnable of this kind of record");
    return kNotSupported;
  }
  Session& s = session();
  bool first = false;
  {
    const std::lock_guard lock(s.mutex);
    first = s.kinds.none();
    if (first) {
      device::set_profiler({.now = now, .called = subscriber_called, .waited = wait_in_real_time});
      begin_clock();
      s.window_begun = false;
    }
    s.kinds.set(kind);
    s.recorded.set(kind);
    set_profiled(s.kinds);
  }
  if (!first) return kSuccess;
  const std::lock_guard lock(s.flush);
  provide_buffer(s);
  return kSuccess;
}

Status cuptiActivityDisable(RecordKind kind) {
  if (kind >= kKinds) return kInvalidKind;
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  s.kinds.reset(kind);
  set_profiled(s.kinds);
  return kSuccess;
}

Status cuptiActivityFlushAll(std::uint32_t) {
  flush();
  return kSuccess;
}
Status cuptiActivityFlushPeriod(std::uint32_t) { return kSuccess; }

Status cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, void** record) {
  if (!buffer || !record) return kInvalidParameter;
  std::uint8_t* next = buffer;
  if (*record) {
    RecordKind kind{};
    std::memcpy(&kind, *record, sizeof kind);
    next = static_cast<std::uint8_t*>(*record) + size_of(kind);
  }
  if (next >= buffer + valid) return kMaxLimitReached;
  *record = next;
  return kSuccess;
}

Status cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* dropped) {
  if (!dropped) return kInvalidParameter;
  *dropped = 0;
  return kSuccess;
}

// Sizes of buffers on the device, of which there are none.
Status cuptiActivitySetAttribute(std::uint32_t, std::size_t* bytes, void* value) {
  return bytes && value ? kSuccess : kInvalidParameter;
}

Status cuptiActivityEnableRuntimeApi(std::uint32_t number, std::uint8_t enable) {
  return set_function(device::Api::runtime, number, enable != 0);
}
Status cuptiActivityEnableDriverApi(std::uint32_t number, std::uint8_t enable) {
  return set_function(device::Api::driver, number, enable != 0);
}
Status cuptiActivityEnableCudaEventDeviceTimestamps(std::uint8_t) { return kSuccess; }

// The first id that is pushed after a profile was prepared is that of the first operator in its
// window.
Status cuptiActivityPushExternalCorrelationId(std::uint32_t kind, std::uint64_t id) {
  if (kind >= device::ProfiledCall::kMarks) return kInvalidParameter;
  Session& s = session();
  {
    const std::lock_guard lock(s.mutex);
    if (s.kinds.any() && !std::exchange(s.window_begun, true)) device::begin_profile_window();
  }
  device::push_mark(kind, id);
  return kSuccess;
}

Status cuptiActivityPopExternalCorrelationId(std::uint32_t kind, std::uint64_t* id) {
  if (kind >= device::ProfiledCall::kMarks) return kInvalidParameter;
  return device::pop_mark(kind, id) ? kSuccess : kQueueEmpty;
}

Status cuptiFinalize() {
  {
    Session& s = session();
    const std::lock_guard lock(s.mutex);
    s.kinds.reset();
    set_profiled(s.kinds);
  }
  flush();
  forget_subscriber();
  return kSuccess;
}

}  // extern "C"
