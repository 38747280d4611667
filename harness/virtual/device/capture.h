// Stream capture. What is put into a captured stream becomes a node of a graph, and is not carried
// out. Streams join a capture by waiting for an event that was recorded in it. A call that a
// capture does not allow fails as CUDA says, and the capture is then invalid.
#pragma once

#include <driver_types.h>

#include "harness/virtual/device/graph.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t begin_capture(StreamHandle stream, cudaStreamCaptureMode mode);
cudaError_t end_capture(StreamHandle stream, GraphHandle* graph);
/// `ends`: the operations that the stream's next one comes after; valid until then.
cudaError_t capture_info(StreamHandle stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, GraphHandle* graph, Node* const** ends,
                         std::size_t* count);
/// Adds to them, or replaces them.
cudaError_t update_ends(StreamHandle stream, Node* const* ends, std::size_t count, bool replace);
/// The calling thread's mode, by which captures of others bind its calls.
cudaError_t exchange_capture_mode(cudaStreamCaptureMode* mode);

bool is_capturing(StreamHandle stream);
/// Adds an operation that takes its own time when it is launched, such as a collective.
void capture_run(StreamHandle stream, const std::string& name,
                 std::function<void(StreamHandle)> run);

}  // namespace tidemark::device
#pragma GCC visibility pop

// The engine's lock is held in all of these.
namespace tidemark::device {

struct Engine;
struct Stream;

struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  long thread = 0;  // that has begun it
  Stream* origin = nullptr;
  std::vector<Stream*> streams;
  std::shared_ptr<Nodes> nodes = std::make_shared<Nodes>();
  GraphHandle graph = nullptr;
  bool invalid = false, ended = false;

  /// The error of a call that the capture does not allow.
  cudaError_t refuse(cudaError_t error) {
    invalid = true;
    return error;
  }
};

/// The operation becomes a node of the stream's capture.
cudaError_t capture(Stream& s, Node node);
/// Error of a call that CUDA counts as unsafe while a capture binds this thread (it waits,
/// allocates or asks); cudaSuccess where no capture does. `s`: the stream of the call, or null.
cudaError_t unsafe_in_capture(const Stream* s);
/// Error of work on the legacy default stream if captured blocking streams would have to wait for
/// it, else cudaSuccess.
cudaError_t implicit_in_capture(const Stream& s);
/// True if a capture is under way on the device (any: -1); all of these become invalid.
bool invalidate_captures(int device);
/// The last node that this thread's operator has become, or null.
Node*& captured_in_operator();

}  // namespace tidemark::device
