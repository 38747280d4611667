// Events. A record captures what its stream holds at that moment; a wait captures the latest record
// at the time of the wait, so that re-recording changes nothing that waits already.
#pragma once

#include <driver_types.h>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t create_event(EventHandle* event, unsigned flags);
/// CUDA IPC, for events of cudaEventInterprocess. The errors of open_memory (ipc.h).
cudaError_t share_event(cudaIpcEventHandle_t* handle, EventHandle event);
cudaError_t open_event(EventHandle* event, const cudaIpcEventHandle_t& handle);
cudaError_t destroy_event(EventHandle event);
/// `external`, on a captured stream: the record and the wait are operations of the graph, and no
/// order inside it.
cudaError_t record_event(EventHandle event, StreamHandle stream, bool external = false);
cudaError_t wait_event(StreamHandle stream, EventHandle event, bool external = false);
/// cudaSuccess also where nothing was ever recorded.
cudaError_t query_event(EventHandle event);
cudaError_t synchronise_event(EventHandle event);
cudaError_t elapsed_time(float* milliseconds, EventHandle start, EventHandle end);

}  // namespace tidemark::device
#pragma GCC visibility pop
