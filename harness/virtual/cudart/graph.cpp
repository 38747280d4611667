// Stream capture and graphs that are made by it. Graphs that a program builds node by node are not
// modelled, and conditional nodes neither.
#include "harness/virtual/device/graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/cuda_versions.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/user_object.h"

namespace device = tidemark::device;
using device::call;

namespace {

/// Writes up to *count of the values, and how many there are; without a place for them only that.
template <class T>
cudaError_t list(const std::vector<T>& values, T* to, size_t* count) {
  if (!count) return cudaErrorInvalidValue;
  if (to) {
    const size_t room = std::exchange(*count, std::min(*count, values.size()));
    std::copy_n(values.begin(), *count, to);
    std::fill(to + *count, to + room, T());
  } else {
    *count = values.size();
  }
  return cudaSuccess;
}

template <class Choose>
cudaError_t list_nodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count, Choose choose) {
  return call([&] {
    const auto all = device::nodes_of(graph);
    if (!all) return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> chosen;
    for (const auto& node : *all)
      if (choose(*node)) chosen.push_back(node.get());
    return list(chosen, nodes, count);
  });
}

cudaError_t list_edges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                       size_t* count) {
  return call([&] {
    const auto all = device::nodes_of(graph);
    if (!all || !count || !from != !to) return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t> begins, ends;
    for (const auto& node : *all) {
      for (const cudaGraphNode_t before : node->before) {
        begins.push_back(before);
        ends.push_back(node.get());
      }
    }
    size_t room = *count;
    if (cudaError_t error = list(begins, from, &room)) return error;
    return list(ends, to, count);
  });
}

cudaError_t list_dependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  return call([&] { return node ? list(node->before, nodes, count) : cudaErrorInvalidValue; });
}

cudaError_t info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                 cudaGraph_t* graph, const cudaGraphNode_t** dependencies, size_t* count) {
  return call(device::capture_info, stream, status, id, graph, dependencies, count);
}

cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t* dependencies, size_t count,
                                unsigned flags) {
  return call([&] {
    if (flags > cudaStreamSetCaptureDependencies) return cudaErrorInvalidValue;
    return device::update_ends(stream, dependencies, count,
                               flags == cudaStreamSetCaptureDependencies);
  });
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call(device::begin_capture, stream, mode);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call(device::end_capture, stream, graph);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call(device::exchange_capture_mode, mode);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return info(stream, status, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  if (edges) *edges = nullptr;
  return info(stream, status, id, graph, dependencies, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned flags) {
  return update_dependencies(stream, dependencies, count, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return call(device::destroy_graph, graph); }
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return call(device::clone_graph, clone, graph);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return list_nodes(graph, nodes, count, [](const device::Node&) { return true; });
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return list_nodes(graph, nodes, count,
                    [](const device::Node& node) { return node.before.empty(); });
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData*, size_t* count) {
  return list_edges(graph, from, to, count);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData*, size_t* count) {
  return list_dependencies(node, dependencies, count);
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call([&] { return node ? device::give(type, node->type) : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  return call(device::print_graph, graph, path);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* value, cudaHostFn_t destroy,
                                 unsigned count, unsigned flags) {
  return call(device::create_object, object, value, destroy, count, flags);
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return call(device::retain_object, object, count);
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return call(device::release_object, object, count);
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return call(device::retain_in_graph, graph, object, count, flags);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return call(device::instantiate, exec, graph, flags);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return call(device::instantiate, exec, graph, flags);
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* result) {
  return call([&] {
    bool same = false;
    const cudaError_t error = device::update_exec(exec, graph, &same);
    if (result) {
      *result = {};
      result->result = error == cudaSuccess ? cudaGraphExecUpdateSuccess
                       : error == cudaErrorGraphExecUpdateFailure
                           ? cudaGraphExecUpdateErrorTopologyChanged
                           : cudaGraphExecUpdateError;
    }
    return error;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return call(device::destroy_exec, exec); }
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return call(device::exec_flags, exec, flags);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  unsigned long long flags = 0;
  return call(device::exec_flags, exec, &flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call(device::launch_graph, exec, stream);
}

#if CUDART_VERSION < 13000
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, size_t* count) {
  return info(stream, status, id, graph, dependencies, count);
}
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                size_t count, unsigned flags) {
  return update_dependencies(stream, dependencies, count, flags);
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              size_t* count) {
  return list_edges(graph, from, to, count);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         size_t* count) {
  return list_dependencies(node, dependencies, count);
}
#endif
