// Streams and host synchronisation.
#pragma once

#include <driver_types.h>

#include <cstdint>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t create_stream(StreamHandle* stream, unsigned flags, int priority);
/// Returns at once; what is enqueued still runs.
cudaError_t destroy_stream(StreamHandle stream);
cudaError_t query_stream(StreamHandle stream);
cudaError_t synchronise_stream(StreamHandle stream);
cudaError_t stream_priority(StreamHandle stream, int* priority);
cudaError_t stream_flags(StreamHandle stream, unsigned* flags);
cudaError_t stream_id(StreamHandle stream, unsigned long long* id);
cudaError_t stream_device(StreamHandle stream, int* device);
bool is_stream(StreamHandle stream);
void priority_range(int* lowest, int* highest);

/// Everything on this device, or on all (-1).
cudaError_t synchronise_device(int device);

/// Runs `function` on a thread of its own once what is before it in the stream is done; what comes
/// after it waits for it. Data effects of earlier operations have taken place when they were
/// enqueued, so it runs at once.
cudaError_t enqueue_host_function(StreamHandle stream, void (*function)(void*), void* argument);

int device_count();
int current_device_index();
/// cudaErrorInvalidDevice where there is no such device.
cudaError_t select_device(int device);

}  // namespace tidemark::device
#pragma GCC visibility pop
