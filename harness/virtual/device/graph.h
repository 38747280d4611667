// CUDA graphs: operations that were captured, by address, and run again at each launch.
#pragma once

#include <driver_types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/virtual/device/activity.h"
#include "harness/virtual/device/device.h"

/// An operation of a graph. What it does, besides taking its time, are its effects, in this order.
struct CUgraphNode_st {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::string name = {};
  tidemark::device::Ns duration = 0;
  std::function<void(tidemark::device::StreamHandle)> run = {};  // takes its own time on the stream
  std::vector<std::function<cudaError_t()>> effects = {};
  tidemark::device::Work work = {};          // for a profiler
  std::string op = {};                       // the operator that has enqueued it
  std::vector<CUgraphNode_st*> before = {};  // dependencies
  std::size_t index = 0;                     // in its graph
};

#pragma GCC visibility push(default)
namespace tidemark::device {

using Node = CUgraphNode_st;
using Nodes = std::vector<std::unique_ptr<Node>>;  // in the order of capture
using GraphHandle = CUgraph_st*;
using ExecHandle = CUgraphExec_st*;

cudaError_t destroy_graph(GraphHandle graph);
cudaError_t clone_graph(GraphHandle* clone, GraphHandle graph);
/// Null (and cudaErrorInvalidValue for the caller) where there is no such graph.
std::shared_ptr<const Nodes> nodes_of(GraphHandle graph);
/// Writes the graph in Graphviz's language.
cudaError_t print_graph(GraphHandle graph, const char* path);

cudaError_t instantiate(ExecHandle* exec, GraphHandle graph, unsigned long long flags);
/// Gives an executable graph other operations of the same kinds and order. False where they are not
/// (cudaErrorGraphExecUpdateFailure).
cudaError_t update_exec(ExecHandle exec, GraphHandle graph, bool* same);
cudaError_t destroy_exec(ExecHandle exec);
cudaError_t exec_flags(ExecHandle exec, unsigned long long* flags);
/// Effects on data take place in the order of capture, as those of calls do. Times are those of the
/// dependencies: branches run beside each other. A collective holds the host.
cudaError_t launch_graph(ExecHandle exec, StreamHandle stream);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {
/// A handle for a graph of these nodes (the engine's lock is held).
GraphHandle make_graph(std::shared_ptr<const Nodes> nodes);
/// Ends the handle; the nodes live as long as an executable graph has them. The caller lets go of
/// them without the lock: their effects, and what the graph keeps alive, may need it.
[[nodiscard]] std::shared_ptr<const Nodes> forget_graph(GraphHandle graph);
/// The graph, and executable ones that are made of it from now on, keep it. False: there is no such
/// graph.
bool keep_alive(GraphHandle graph, std::shared_ptr<void> kept);
}  // namespace tidemark::device
