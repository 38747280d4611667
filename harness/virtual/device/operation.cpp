#include <algorithm>
#include <cstdio>
#include <string>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/idle.h"
#include "harness/virtual/device/kernel.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/race_detector.h"
#include "harness/virtual/device/watchdog.h"

namespace tidemark::device {
namespace {

struct Bracket {
  int depth = 0;
  std::string name;
  std::uint32_t stream = 0;
  bool used = false;     // has put something into `stream`
  bool charged = false;  // real work was charged inside
  bool awaited = false;  // the host has waited for all of it
  double bytes = 0;      // charged by copies and memsets
  std::uint64_t operations = 0;
};
thread_local Bracket bracket;
thread_local int suspended = 0;
thread_local int answering = 0;
thread_local std::int64_t answer = 0;
thread_local SparseProduct product;

/// Puts a kernel into the stream, or into the graph that is made of it. `effect`: on data.
cudaError_t launch(Stream& s, std::string_view name, Ns duration,
                   std::function<cudaError_t()> effect = {},
                   const Work& work = {.type = Work::Type::kernel}) {
  Engine& e = engine();
  pay_launch(e);
  if (s.capture) {
    Node node{.type = cudaGraphNodeTypeKernel,
              .name = std::string(name),
              .duration = duration,
              .work = work};
    if (effect) node.effects.push_back(std::move(effect));
    return capture(s, std::move(node));
  }
  if (const cudaError_t error = implicit_in_capture(s)) return error;
  ++e.launches;
  e.append(s, duration, name, Kind::op, work);
  return effect ? effect() : cudaSuccess;
}

}  // namespace

bool inside_operator() { return bracket.depth > 0; }

std::string_view current_operator() {
  if (carries_step_out()) return operator_of_step();
  return bracket.depth > 0 ? std::string_view(bracket.name) : race::current_operator();
}

SparseProduct sparse_product() { return product; }

const std::int64_t* answer_to_reads(std::size_t bytes) {
  return answering > 1 || (answering && (bytes == 4 || bytes == 8)) ? &answer : nullptr;
}

bool data_moves() {
  return suspended <= 0 && engine().data.load(std::memory_order_relaxed) == Data::all;
}
bool follows_known() {
  return suspended <= 0 && engine().data.load(std::memory_order_relaxed) == Data::known;
}

Ns host_now() {
  auto [e, lock] = locked();
  return e.now;
}

Links links() {
  auto [e, lock] = locked_at_once();
  return e.profile.links;
}

std::string clock_setting() {
  auto [e, lock] = locked_at_once();
  char figures[9];
  std::snprintf(figures, sizeof figures, "%08x", e.profile.figures);
  return "GPU profile " + e.profile.name + " (figures " + figures + "), schedule " +
         e.schedule_name();
}

void charge_in_bracket(Stream& s, double bytes, bool real_work) {
  if (bracket.depth == 0) return;
  bracket.stream = s.index;
  bracket.used = true;
  ++bracket.operations;
  bracket.awaited = false;
  bracket.bytes += bytes;
  bracket.charged |= real_work;
}

void note_wait(const Mark& mark) {
  if (bracket.depth == 0 || !bracket.used) return;
  bracket.awaited |= mark.clock.covers(engine().streams[bracket.stream].clock);
}

void enqueue(StreamHandle stream, std::string_view name, const Cost& cost) {
  const CallRecord call(Api::runtime, kLibraryLaunch);
  auto [e, lock, s] = locked(stream);
  if (!s) return;
  static_cast<void>(launch(*s, name, e.profile.duration(cost)));
  charge_in_bracket(*s, 0, cost.flops > 0 || cost.bytes > 0);
}

Ns begin_collective(StreamHandle stream) {
  auto [e, lock, s] = locked(stream);
  if (!s) return e.now;
  pay_launch(e);
  ++e.launches;
  e.await_queue(*s);
  e.apply_default_stream_rules(*s);
  return std::max(s->tail, e.now);
}

void end_collective(StreamHandle stream, std::string_view name, Ns start, Ns end) {
  const CallRecord call(Api::runtime, kLibraryLaunch);
  auto [e, lock, s] = locked(stream);
  if (!s) return;
  s->tail = std::max({s->tail, start, e.now});  // the participants wait for the latest
  e.append(*s, std::max<Ns>(end - s->tail, 0), name, Kind::collective,
           {.type = Work::Type::kernel});
  charge_in_bracket(*s, 0, true);
}

void note_access(StreamHandle stream, std::string_view name, const void* address, std::size_t bytes,
                 bool write) {
  if (bytes == 0) return;
  auto [e, lock, s] = locked(stream);
  if (!s) return;
  note_memory_of_work(e, *s, address);
  if (race::is_on())
    race::note(*s, name, {reinterpret_cast<std::uintptr_t>(address), bytes, 1, 0}, write);
}

// A kernel whose work is not known from its arguments.
cudaError_t enqueue_kernel(Stream& s, std::string_view name, double fallback_bytes, Ns duration,
                           std::function<cudaError_t()> effect, const Work& work) {
  const bool inside = bracket.depth > 0;
  const bool known = duration >= 0;
  const Profile& profile = engine().profile;
  const cudaError_t error =
      launch(s, name, known ? duration : profile.duration({.bytes = inside ? 0 : fallback_bytes}),
             std::move(effect), work);
  charge_in_bracket(s, 0, known);
  return error;
}

}  // namespace tidemark::device

using namespace tidemark::device;

void tidemark_device_await_stream(void* stream) {
  settle_if_deferring(static_cast<StreamHandle>(stream));
}
void tidemark_device_suspend_data(int delta) { suspended += delta; }
void tidemark_device_sparse_product(int64_t entries, int64_t products) {
  product = {entries, products};
}
void tidemark_device_answer_reads(int on, int64_t value) {
  answering = on;
  answer = value;
}

void tidemark_device_begin_operator(const char* name) {
  if (bracket.depth == 0) let_watchdogs_look();
  if (bracket.depth++ == 0) {
    ++operators_under_way;
    bracket = {};
    bracket.depth = 1;
    bracket.name = name ? name : "";
    captured_in_operator() = nullptr;
  }
}

uint64_t tidemark_device_operations_inside(void) { return bracket.operations; }

void tidemark_device_end_operator(uint64_t bytes) {
  if (bracket.depth == 0 || --bracket.depth > 0) return;
  --operators_under_way;
  if (!bracket.used || bracket.charged) return;
  const double left = static_cast<double>(bytes) - bracket.bytes;
  if (left <= 0) return;
  const StreamHandle stream = [] {
    auto [e, lock] = locked_at_once();
    return e.streams[bracket.stream].handle;
  }();
  settle_if_deferring(stream);
  auto [e, lock] = locked_at_once();
  Stream& s = e.streams[bracket.stream];
  if (Node* const last = captured_in_operator(); last && s.capture) {
    last->duration += e.profile.transfer(left, e.profile.memory_gbps);
    return;
  }
  s.tail += e.drawn(e.profile.transfer(left, e.profile.memory_gbps));
  // The time for which the host has waited inside the operator includes the time of these bytes.
  if (bracket.awaited) e.now = std::max(e.now, s.tail);
  lengthen_operation(s.device, s.legacy ? 0 : s.index, s.tail);
  if (e.tracing && !e.trace.empty() && e.trace.back().stream == s.index &&
      e.trace.back().kind != Kind::wait) {
    e.trace.back().end = s.tail;
    e.trace.back().name = e.trace_names.joined(e.trace_names.of(bracket.name), e.trace.back().name);
  }
}
