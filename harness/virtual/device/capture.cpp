#include "harness/virtual/device/capture.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"

namespace tidemark::device {
namespace {

struct Captures {
  std::vector<std::shared_ptr<Capture>> under_way;
  unsigned long long begun = 0;
};
Captures& captures() { return immortal<Captures>(); }
std::atomic<int> captures_under_way{0};

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

long this_thread() { return syscall(SYS_gettid); }

bool binds_this_thread(const Capture& c) {
  if (c.invalid || thread_mode == cudaStreamCaptureModeRelaxed ||
      c.mode == cudaStreamCaptureModeRelaxed)
    return false;
  const bool global =
      thread_mode == cudaStreamCaptureModeGlobal && c.mode == cudaStreamCaptureModeGlobal;
  return global || c.thread == this_thread();
}

/// True if every node is in `ends` or before one of them.
bool joined(const Nodes& nodes, const std::vector<Node*>& ends) {
  std::unordered_set<const Node*> reached(ends.begin(), ends.end());
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (reached.contains(node->get()))
      reached.insert((*node)->before.begin(), (*node)->before.end());
  return reached.size() == nodes.size();
}

}  // namespace

Node*& captured_in_operator() {
  thread_local Node* last = nullptr;
  return last;
}

cudaError_t begin_capture(StreamHandle stream, cudaStreamCaptureMode mode) {
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
    return cudaErrorInvalidValue;
  if (s->legacy) return cudaErrorStreamCaptureUnsupported;
  if (s->capture) return cudaErrorIllegalState;
  auto made = std::make_shared<Capture>();
  made->id = ++captures().begun;
  made->mode = mode;
  made->thread = this_thread();
  made->origin = s;
  made->streams = {s};
  made->graph = make_graph(made->nodes);
  s->capture = made;
  s->capture_ends.clear();
  captures().under_way.push_back(std::move(made));
  ++captures_under_way;
  return cudaSuccess;
}

cudaError_t end_capture(StreamHandle stream, GraphHandle* graph) {
  std::shared_ptr<Capture> c;  // its effects may free objects that need the lock
  std::shared_ptr<const Nodes> failed;
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!graph) return cudaErrorInvalidValue;
  *graph = nullptr;
  c = s->capture;
  if (!c) return cudaErrorIllegalState;
  if (c->origin != s) return c->refuse(cudaErrorStreamCaptureUnmatched);
  if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())
    return c->refuse(cudaErrorStreamCaptureWrongThread);
  const bool whole = joined(*c->nodes, s->capture_ends);
  for (Stream* const one : c->streams) {
    one->capture = nullptr;
    one->capture_ends.clear();
  }
  c->ended = true;
  std::erase(captures().under_way, c);
  --captures_under_way;
  const cudaError_t error = c->invalid ? cudaErrorStreamCaptureInvalidated
                            : whole    ? cudaSuccess
                                       : cudaErrorStreamCaptureUnjoined;
  if (error == cudaSuccess)
    *graph = c->graph;
  else
    failed = forget_graph(c->graph);
  return error;
}

cudaError_t capture_info(StreamHandle stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, GraphHandle* graph, Node* const** ends,
                         std::size_t* count) {
  if (!status) return cudaErrorInvalidValue;
  auto [e, lock] = locked_at_once();
  const Stream* const s = e.find(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  const Capture* const c = s->capture.get();
  if (s->legacy && implicit_in_capture(*s) != cudaSuccess) return cudaErrorStreamCaptureImplicit;
  const bool active = c && !c->invalid;
  *status = !c       ? cudaStreamCaptureStatusNone
            : active ? cudaStreamCaptureStatusActive
                     : cudaStreamCaptureStatusInvalidated;
  if (id) *id = active ? c->id : 0;
  if (graph) *graph = active ? c->graph : nullptr;
  if (ends) *ends = active ? s->capture_ends.data() : nullptr;
  if (count) *count = active ? s->capture_ends.size() : 0;
  return cudaSuccess;
}

cudaError_t update_ends(StreamHandle stream, Node* const* ends, std::size_t count, bool replace) {
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!s->capture) return cudaErrorIllegalState;
  if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (count > 0 && !ends) return cudaErrorInvalidValue;
  if (replace) s->capture_ends.clear();
  for (Node* const node : std::vector<Node*>(ends, ends + count))
    if (std::ranges::find(s->capture_ends, node) == s->capture_ends.end())
      s->capture_ends.push_back(node);
  return cudaSuccess;
}

cudaError_t exchange_capture_mode(cudaStreamCaptureMode* mode) {
  if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
    return cudaErrorInvalidValue;
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}

bool is_capturing(StreamHandle stream) {
  auto [e, lock] = locked_at_once();
  const Stream* const s = e.find(stream);
  return s && s->capture;
}

void capture_run(StreamHandle stream, const std::string& name,
                 std::function<void(StreamHandle)> run) {
  auto [e, lock] = locked_at_once();
  Stream* const s = e.find(stream);
  if (!s || !s->capture) return;
  pay_launch(e);
  static_cast<void>(
      capture(*s, {.type = cudaGraphNodeTypeKernel, .name = name, .run = std::move(run)}));
}

cudaError_t capture(Stream& s, Node node) {
  Capture& c = *s.capture;
  if (c.invalid) return cudaErrorStreamCaptureInvalidated;
  node.before = s.capture_ends;
  node.index = c.nodes->size();
  node.op = std::string(current_operator());
  c.nodes->push_back(std::make_unique<Node>(std::move(node)));
  s.capture_ends = {c.nodes->back().get()};
  captured_in_operator() = c.nodes->back().get();
  return cudaSuccess;
}

cudaError_t unsafe_in_capture(const Stream* s) {
  cudaError_t error = cudaSuccess;
  if (s && s->capture)
    error = s->capture->invalid ? cudaErrorStreamCaptureInvalidated
                                : s->capture->refuse(cudaErrorStreamCaptureUnsupported);
  for (const auto& c : captures().under_way)
    if (binds_this_thread(*c)) error = c->refuse(cudaErrorStreamCaptureUnsupported);
  return error;
}

cudaError_t implicit_in_capture(const Stream& s) {
  if (!s.legacy) return cudaSuccess;
  for (const auto& c : captures().under_way)
    for (const Stream* const one : c->streams)
      if (one->blocking && one->device == s.device)
        return c->refuse(cudaErrorStreamCaptureImplicit);
  return cudaSuccess;
}

bool invalidate_captures(int device) {
  bool any = false;
  for (const auto& c : captures().under_way) {
    if (device >= 0 && c->origin->device != device) continue;
    c->invalid = any = true;
  }
  return any;
}

}  // namespace tidemark::device

using namespace tidemark::device;

int tidemark_device_captures_under_way() { return captures_under_way.load(); }
int tidemark_device_is_capturing(void* stream) {
  return is_capturing(static_cast<StreamHandle>(stream));
}

int tidemark_device_capture_effect(int (*run)(void*), void* data, void (*destroy)(void*)) {
  auto [e, lock] = locked_at_once();
  Node* const node = captured_in_operator();
  if (!node) return 0;
  node->effects.push_back([run, owned_data = std::shared_ptr<void>(data, destroy)] {
    return run(owned_data.get()) == 0 ? cudaSuccess : cudaErrorLaunchFailure;
  });
  return 1;
}
