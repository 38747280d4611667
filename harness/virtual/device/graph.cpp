#include "harness/virtual/device/graph.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/device/refusal.h"

namespace tidemark::device {
namespace {

using Shared = std::shared_ptr<const Nodes>;
struct Exec {
  Shared nodes;
  unsigned long long flags;
};

// Handles are numbers that are used once, so that one that was destroyed is an error.
template <class Handle, class T>
struct Table {
  std::map<Handle, T> all;
  std::uintptr_t made = 0;

  Handle add(T value, std::uintptr_t kind) {
    const auto handle = reinterpret_cast<Handle>(++made << 8 | kind);
    all.emplace(handle, std::move(value));
    return handle;
  }
  T* find(Handle handle) {
    const auto entry = all.find(handle);
    return entry == all.end() ? nullptr : &entry->second;
  }
};
Table<GraphHandle, Shared>& graphs() { return immortal<Table<GraphHandle, Shared>>(); }
Table<ExecHandle, Exec>& execs() { return immortal<Table<ExecHandle, Exec>>(); }
constexpr std::uintptr_t kGraph = 0x68, kExec = 0x78;

Kind kind_of(const Node& node) {
  const bool copies = node.type == cudaGraphNodeTypeMemcpy || node.type == cudaGraphNodeTypeMemset;
  return copies ? Kind::copy : Kind::op;
}

const char* name_of(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "memcpy";
    case cudaGraphNodeTypeMemset:
      return "memset";
    case cudaGraphNodeTypeHost:
      return "host";
    case cudaGraphNodeTypeGraph:
      return "graph";
    case cudaGraphNodeTypeWaitEvent:
      return "wait for an event";
    case cudaGraphNodeTypeEventRecord:
      return "record of an event";
    default:
      return "empty";
  }
}

bool same_shape(const Nodes& a, const Nodes& b) {
  const auto same = [](const std::unique_ptr<Node>& one, const std::unique_ptr<Node>& other) {
    return one->type == other->type &&
           std::ranges::equal(one->before, other->before, {}, &Node::index, &Node::index);
  };
  return std::ranges::equal(a, b, same);
}

}  // namespace

GraphHandle make_graph(Shared nodes) { return graphs().add(std::move(nodes), kGraph); }
Shared forget_graph(GraphHandle graph) {
  Shared* const graph_nodes = graphs().find(graph);
  Shared last = graph_nodes ? std::move(*graph_nodes) : nullptr;
  graphs().all.erase(graph);
  return last;
}

bool keep_alive(GraphHandle graph, std::shared_ptr<void> kept) {
  auto [e, lock] = locked_at_once();
  Shared* const graph_nodes = graphs().find(graph);
  if (!graph_nodes) return false;
  const Nodes* const nodes = graph_nodes->get();
  using Both = std::pair<Shared, std::shared_ptr<void>>;
  *graph_nodes = Shared(std::make_shared<Both>(std::move(*graph_nodes), std::move(kept)), nodes);
  return true;
}

cudaError_t destroy_graph(GraphHandle graph) {
  Shared last;  // goes without the lock
  auto [e, lock] = locked_at_once();
  last = forget_graph(graph);
  return last ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t clone_graph(GraphHandle* clone, GraphHandle graph) {
  auto [e, lock] = locked_at_once();
  const Shared* const graph_nodes = graphs().find(graph);
  if (!clone || !graph_nodes) return cudaErrorInvalidValue;
  *clone = make_graph(Shared(*graph_nodes));
  return cudaSuccess;
}

Shared nodes_of(GraphHandle graph) {
  auto [e, lock] = locked_at_once();
  const Shared* const graph_nodes = graphs().find(graph);
  return graph_nodes ? *graph_nodes : nullptr;
}

cudaError_t print_graph(GraphHandle graph, const char* path) {
  const Shared nodes = nodes_of(graph);
  if (!nodes || !path) return cudaErrorInvalidValue;
  std::FILE* const file = std::fopen(path, "we");
  if (!file) return cudaErrorOperatingSystem;
  std::fprintf(file, "digraph dot {\n");
  for (const auto& node : *nodes) {
    std::fprintf(file, "  \"%zu\" [label=\"%zu: %s\\n%s\"];\n", node->index, node->index,
                 name_of(node->type), kernel_name(node->name).c_str());
    for (const Node* const before : node->before)
      std::fprintf(file, "  \"%zu\" -> \"%zu\";\n", before->index, node->index);
  }
  std::fprintf(file, "}\n");
  return std::fclose(file) == 0 ? cudaSuccess : cudaErrorOperatingSystem;
}

cudaError_t instantiate(ExecHandle* exec, GraphHandle graph, unsigned long long flags) {
  auto [e, lock] = locked_at_once();
  const Shared* const graph_nodes = graphs().find(graph);
  constexpr unsigned long long kKnown = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                        cudaGraphInstantiateFlagUpload |
                                        cudaGraphInstantiateFlagUseNodePriority;
  if (!exec || !graph_nodes) return cudaErrorInvalidValue;
  if (flags & cudaGraphInstantiateFlagDeviceLaunch) {
    not_supported("libcudart", "cudaGraphInstantiate(cudaGraphInstantiateFlagDeviceLaunch)");
    return cudaErrorNotSupported;
  }
  if (flags & ~kKnown) return cudaErrorInvalidValue;
  *exec = execs().add({*graph_nodes, flags}, kExec);
  return cudaSuccess;
}

cudaError_t update_exec(ExecHandle exec, GraphHandle graph, bool* same) {
  auto [e, lock] = locked_at_once();
  Exec* const one = execs().find(exec);
  const Shared* const graph_nodes = graphs().find(graph);
  if (!one || !graph_nodes) return cudaErrorInvalidValue;
  *same = same_shape(*one->nodes, **graph_nodes);
  if (!*same) return cudaErrorGraphExecUpdateFailure;
  one->nodes = *graph_nodes;
  return cudaSuccess;
}

cudaError_t destroy_exec(ExecHandle exec) {
  Shared last;  // as above
  auto [e, lock] = locked_at_once();
  Exec* const one = execs().find(exec);
  if (!one) return cudaErrorInvalidValue;
  last = std::move(one->nodes);
  execs().all.erase(exec);
  return cudaSuccess;
}

cudaError_t exec_flags(ExecHandle exec, unsigned long long* flags) {
  auto [e, lock] = locked_at_once();
  const Exec* const one = execs().find(exec);
  if (!one || !flags) return cudaErrorInvalidValue;
  *flags = one->flags;
  return cudaSuccess;
}

cudaError_t launch_graph(ExecHandle exec, StreamHandle stream) {
  note_read(nullptr);
  auto [e, lock, s] = locked(stream);
  const Exec* const one = execs().find(exec);
  if (!one) return cudaErrorInvalidValue;
  if (!s) return cudaErrorInvalidResourceHandle;
  const Shared nodes = one->nodes;
  if (s->capture) {
    pay_launch(e);
    return capture(*s, {.type = cudaGraphNodeTypeGraph,
                        .name = "graph",
                        .run = [exec](StreamHandle to) { launch_graph(exec, to); }});
  }
  pay_launch(e);
  e.await_queue(*s);
  e.apply_default_stream_rules(*s);
  const Ns begin = std::max(s->tail, e.now);
  Ns latest = begin;
  std::vector<Ns> ends;
  cudaError_t error = cudaSuccess;
  for (const auto& node : *nodes) {
    s->tail = begin;
    for (const Node* const before : node->before) s->tail = std::max(s->tail, ends[before->index]);
    if (node->run) {
      lock.unlock();
      node->run(stream);
      settle(stream);
      lock.lock();
    } else {
      e.launches += node->type == cudaGraphNodeTypeKernel;
      e.put(*s, node->duration, node->name, kind_of(*node), node->work);
      if (e.tracing && !node->op.empty()) e.trace.back().op = e.trace_names.of(node->op);
    }
    ends.push_back(s->tail);
    latest = std::max(latest, s->tail);
    if (node->effects.empty()) continue;
    lock.unlock();
    for (const auto& effect : node->effects)
      if (const cudaError_t failed = effect(); failed != cudaSuccess) error = failed;
    lock.lock();
  }
  s->tail = std::max(latest, s->tail);
  e.launched(*s);
  return error;
}

}  // namespace tidemark::device
