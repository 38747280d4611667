#include <algorithm>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/names.h"

using namespace tidemark::device;

void tidemark_device_trace(int on) {
  auto [e, lock] = locked();
  e.tracing = on != 0;
  if (!on) return;
  e.trace.clear();
  e.trace_left_out = 0;
  e.trace_names.forget();
}

void tidemark_device_trace_at_most(size_t most) {
  auto [e, lock] = locked();
  e.trace_most = most;
}

uint64_t tidemark_device_trace_left_out() {
  auto [e, lock] = locked();
  return e.trace_left_out;
}

size_t tidemark_device_spans(struct tidemark_span* spans, size_t size) {
  auto [e, lock] = locked();
  for (size_t i = 0; spans && i < std::min(size, e.trace.size()); ++i) {
    const TraceEntry& t = e.trace[i];
    spans[i] = {t.op,   t.name,  t.stream, static_cast<int32_t>(t.kind),
                t.host, t.start, t.end,    t.place};
  }
  return e.trace.size();
}

size_t tidemark_device_stream_name(void* stream, char* text, size_t size) {
  auto [e, lock, s] = locked(static_cast<StreamHandle>(stream));
  return give_text(s ? e.name_of(s->index) : "unknown stream", text, size);
}

size_t tidemark_device_lane_name(uint32_t stream, char* text, size_t size) {
  auto [e, lock] = locked();
  const bool known = stream == kHostLane || stream < e.streams.size();
  return give_text(known ? e.name_of(stream) : "unknown stream", text, size);
}
