// Stream capture and CUDA graphs: what is captured is not carried out, a launch carries it out, and
// what a capture does not allow fails as CUDA says.
#include <driver_types.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "harness/virtual/device/testing.h"

namespace tidemark::device::testing {
namespace {

struct Graphs : Calibrated {
  void SetUp() override {
    Calibrated::SetUp();
    tidemark_device_set_data(1);
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaSuccess, cudaStreamBeginCapture(stream, mode));
  }
  /// Ends the capture and makes it executable.
  cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaSuccess, cudaStreamEndCapture(stream, &graph));
    EXPECT_EQ(cudaSuccess, cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_EQ(cudaSuccess, cudaGraphDestroy(graph));
    EXPECT_EQ(cudaErrorInvalidValue, cudaGraphDestroy(graph));
    return exec;
  }
  /// A capture that has become invalid ends with this, and without a graph.
  void ends_with(cudaError_t error) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(error, cudaStreamEndCapture(stream, &graph));
    EXPECT_EQ(nullptr, graph);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaSuccess, cudaStreamIsCapturing(stream, &status));
    EXPECT_EQ(cudaStreamCaptureStatusNone, status);
    EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(stream));
    cudaGetLastError();
  }
  void fill(char value) { CUDA(cudaMemsetAsync(memory, value, 64, stream)); }
  int first(const Memory& of) {
    char byte = 0;
    EXPECT_EQ(cudaSuccess, cudaMemcpy(&byte, of, 1, cudaMemcpyDeviceToHost));
    return byte;
  }
  /// So long takes a kernel of `bytes` read and written.
  static void work(cudaStream_t on, double bytes) { enqueue(on, "work", {.bytes = bytes}); }

  const cudaStream_t stream = make_stream(), other = make_stream();
  const Memory memory{1024}, copy{1024};
};

TEST_F(Graphs, ALaunchDoesWhatWasCapturedAgainAndAgain) {
  fill(1);
  begin();
  fill(2);
  CUDA(cudaMemcpyAsync(copy, memory, 64, cudaMemcpyDeviceToDevice, stream));
  cudaGraphExec_t exec = end();
  EXPECT_EQ(1, first(memory)) << "nothing was carried out";
  for (int i = 0; i < 2; ++i) {
    fill(1);
    CUDA(cudaMemsetAsync(copy, 0, 64, stream));
    CUDA(cudaGraphLaunch(exec, other));
    EXPECT_EQ(2, first(memory));
    EXPECT_EQ(2, first(copy));
  }
  CUDA(cudaGraphExecDestroy(exec));
  EXPECT_EQ(cudaErrorInvalidValue, cudaGraphLaunch(exec, other));
}

TEST_F(Graphs, BranchesRunBesideEachOtherAndJoin) {
  const cudaEvent_t fork = make_event(), join = make_event();
  begin();
  work(stream, 1e9);
  CUDA(cudaEventRecord(fork, stream));
  CUDA(cudaStreamWaitEvent(other, fork, 0));
  work(other, 8e9);
  work(stream, 2e9);
  CUDA(cudaEventRecord(join, other));
  CUDA(cudaStreamWaitEvent(stream, join, 0));
  work(stream, 3e9);
  cudaGraphExec_t exec = end();
  CUDA(cudaStreamSynchronize(other));  // it is a stream as before
  tidemark_device_trace(1);
  for (const double bytes : {1e9, 2e9, 3e9, 8e9}) work(other, bytes);
  CUDA(cudaStreamSynchronize(other));
  Ns takes[4] = {};
  const auto alone = traced();
  for (std::size_t i = 0; i < 4; ++i) takes[i] = alone[i].end - alone[i].begin;
  tidemark_device_trace(1);
  CUDA(cudaGraphLaunch(exec, stream));
  const auto spans = traced();
  ASSERT_EQ(4U, spans.size());
  const Ns at = spans[0].begin;
  EXPECT_EQ(at + takes[0], spans[1].begin);
  EXPECT_EQ(at + takes[0], spans[2].begin);
  EXPECT_EQ(at + takes[0] + takes[3], spans[3].begin);
  const Ns before = tidemark_device_now();
  CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(spans[3].end, tidemark_device_now());
  EXPECT_LT(before, spans[3].end);
  CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(Graphs, NodesAndTheirDependenciesAreListedAndDrawn) {
  begin();
  fill(1);
  work(stream, 64);
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr, ended = nullptr;
  const cudaGraphNode_t* ends = nullptr;
  std::size_t count = 0;
  CUDA(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &ends, nullptr, &count));
  EXPECT_EQ(cudaStreamCaptureStatusActive, status);
  EXPECT_GT(id, 0U);
  ASSERT_EQ(1U, count);
  const cudaGraphNode_t last = ends[0];
  CUDA(cudaStreamEndCapture(stream, &ended));
  EXPECT_EQ(graph, ended);
  std::size_t nodes = 0, before = 4;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(2U, nodes);
  cudaGraphNode_t of_last[4] = {};
  CUDA(cudaGraphNodeGetDependencies(last, of_last, nullptr, &before));
  ASSERT_EQ(1U, before);
  cudaGraphNodeType type{};
  CUDA(cudaGraphNodeGetType(of_last[0], &type));
  EXPECT_EQ(cudaGraphNodeTypeMemset, type);
  const std::string path = ::testing::TempDir() + "graph.dot";
  CUDA(cudaGraphDebugDotPrint(graph, path.c_str(), 0));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_NE(std::string::npos, text.str().find("\"0\" -> \"1\""));
  std::remove(path.c_str());
  CUDA(cudaGraphDestroy(graph));
}

TEST_F(Graphs, AnUpdateNeedsTheSameShape) {
  const auto graph_of = [&](char value, bool more) {
    cudaGraph_t graph = nullptr;
    begin();
    fill(value);
    if (more) work(stream, 64);
    EXPECT_EQ(cudaSuccess, cudaStreamEndCapture(stream, &graph));
    return graph;
  };
  cudaGraphExec_t exec = nullptr;
  CUDA(cudaGraphInstantiate(&exec, graph_of(3, false), 0));
  cudaGraphExecUpdateResultInfo result{};
  CUDA(cudaGraphExecUpdate(exec, graph_of(4, false), &result));
  EXPECT_EQ(cudaGraphExecUpdateSuccess, result.result);
  CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_EQ(4, first(memory));
  EXPECT_EQ(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, graph_of(5, true), &result));
  EXPECT_EQ(cudaGraphExecUpdateErrorTopologyChanged, result.result);
  CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(Graphs, HostFunctionsAndGraphsAreNodes) {
  static std::atomic<int> called{0};
  called = 0;
  begin();
  CUDA(cudaLaunchHostFunc(
      stream, [](void*) { ++called; }, nullptr));
  cudaGraphExec_t inner = end();
  begin();
  CUDA(cudaGraphLaunch(inner, stream));
  fill(6);
  cudaGraphExec_t exec = end();
  CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(0, called);
  CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(1, called);
  EXPECT_EQ(6, first(memory));
}

TEST_F(Graphs, KeepObjectsOfTheProgramAlive) {
  static int destroyed = 0;
  const auto make = [] {
    cudaUserObject_t made = nullptr;
    EXPECT_EQ(cudaSuccess, cudaUserObjectCreate(
                               &made, &destroyed, [](void* count) { ++*static_cast<int*>(count); },
                               1, cudaUserObjectNoDestructorSync));
    return made;
  };
  begin();
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  const cudaUserObject_t moved = make(), shared = make();
  CUDA(cudaGraphRetainUserObject(graph, moved, 1, cudaGraphUserObjectMove));
  CUDA(cudaGraphRetainUserObject(graph, shared, 2, 0));
  const cudaGraphExec_t exec = end();  // destroys the graph
  CUDA(cudaUserObjectRelease(shared, 1));
  EXPECT_EQ(0, destroyed);
  CUDA(cudaGraphExecDestroy(exec));
  EXPECT_EQ(2, destroyed);
  EXPECT_EQ(cudaErrorInvalidValue, cudaUserObjectRelease(moved, 1));
  EXPECT_EQ(cudaErrorInvalidValue, cudaGraphRetainUserObject(graph, make(), 1, 0)) << "it is gone";

  begin();  // a capture that fails lets go of them too
  CUDA(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  CUDA(cudaGraphRetainUserObject(graph, make(), 1, cudaGraphUserObjectMove));
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  ends_with(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(3, destroyed);
}

TEST_F(Graphs, WhatWaitsOrAllocatesIsNotPermittedAndInvalidates) {
  const cudaEvent_t event = make_event();
  void* at = nullptr;
  const std::pair<const char*, std::function<cudaError_t()>> calls[] = {
      {"synchronise the stream", [&] { return cudaStreamSynchronize(stream); }},
      {"query the stream", [&] { return cudaStreamQuery(stream); }},
      {"synchronise the device", [] { return cudaDeviceSynchronize(); }},
      {"cudaMalloc", [&] { return cudaMalloc(&at, 1); }},
      {"query of an event", [&] { return cudaEventQuery(event); }},
      {"query of another stream", [&] { return cudaStreamQuery(other); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    begin();
    EXPECT_EQ(cudaErrorStreamCaptureUnsupported, call());
    EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(memory, 1, 8, stream));
    ends_with(cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(Graphs, TheModeSaysWhomACaptureBinds) {
  const auto elsewhere = [] {
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      void* at = nullptr;
      error = cudaMalloc(&at, 1);
      if (error == cudaSuccess) cudaFree(at);
    }).join();
    return error;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(cudaSuccess, elsewhere());
  CUDA(cudaGraphExecDestroy(end()));
  begin(cudaStreamCaptureModeRelaxed);
  void* at = nullptr;
  CUDA(cudaMalloc(&at, 1));
  CUDA(cudaFree(at));
  CUDA(cudaGraphExecDestroy(end()));
  begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  CUDA(cudaMalloc(&at, 1));
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(cudaStreamCaptureModeRelaxed, mode);
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported, elsewhere());
  ends_with(cudaErrorStreamCaptureInvalidated);
  CUDA(cudaFree(at));
}

TEST_F(Graphs, StreamsThatDoNotJoinOrMixAreErrors) {
  const cudaEvent_t event = make_event(), earlier = make_event();
  CUDA(cudaEventRecord(earlier, other));
  begin();
  fill(1);
  CUDA(cudaEventRecord(event, stream));
  CUDA(cudaStreamWaitEvent(other, event, 0));
  work(other, 64);
  ends_with(cudaErrorStreamCaptureUnjoined);
  CUDA(cudaStreamSynchronize(other));

  begin();
  EXPECT_EQ(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, earlier, 0));
  ends_with(cudaErrorStreamCaptureInvalidated);

  begin();
  CUDA(cudaEventRecord(event, stream));
  CUDA(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(other, event, 0));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(other, &graph));
  ends_with(cudaErrorStreamCaptureInvalidated);

  begin();
  CUDA(cudaEventRecord(event, stream));
  EXPECT_EQ(cudaErrorCapturedEvent, cudaEventQuery(event));
  ends_with(cudaErrorStreamCaptureInvalidated);

  EXPECT_EQ(cudaErrorStreamCaptureUnsupported,
            cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
  begin();
  EXPECT_EQ(cudaErrorIllegalState, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  std::thread([&] {
    EXPECT_EQ(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(stream, &graph));
  }).join();
  ends_with(cudaErrorStreamCaptureInvalidated);

  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaErrorStreamCaptureImplicit, cudaMemsetAsync(memory, 1, 8, nullptr));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph));
}

}  // namespace
}  // namespace tidemark::device::testing
