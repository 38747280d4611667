// Events. A record captures what its stream holds at that moment; a wait captures the latest record
// at the time of the wait, so that re-recording changes nothing that waits already.
#pragma once

#include <driver_types.h>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t create_event(EventHandle* event, unsigned flags);
cudaError_t destroy_event(EventHandle event);
cudaError_t record_event(EventHandle event, StreamHandle stream);
cudaError_t wait_event(StreamHandle stream, EventHandle event);
/// cudaSuccess also where nothing was ever recorded.
cudaError_t query_event(EventHandle event);
cudaError_t synchronise_event(EventHandle event);
cudaError_t elapsed_time(float* milliseconds, EventHandle start, EventHandle end);

}  // namespace tidemark::device
#pragma GCC visibility pop
