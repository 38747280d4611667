// Copies and memsets: what they cost always, what they move only where data moves (math).
// Synchronous forms follow the CUDA runtime's "API synchronization behavior".
#pragma once

#include <driver_types.h>

#include <cstddef>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

struct Rectangle {  // rows of `width` bytes; a plain copy is one row
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t to_pitch = 0, from_pitch = 0;  // bytes from row to row
  std::size_t to_slice = 0, from_slice = 0;  // bytes from plane to plane
};

enum class Waiting { async, sync };

cudaError_t copy(void* to, const void* from, const Rectangle& shape, cudaMemcpyKind kind,
                 StreamHandle stream, Waiting waiting);
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 StreamHandle stream, Waiting waiting);
/// `value` holds the `unit` (1, 2 or 4) bytes that are repeated.
cudaError_t fill(void* to, unsigned value, std::size_t unit, const Rectangle& shape,
                 StreamHandle stream, Waiting waiting);

}  // namespace tidemark::device
#pragma GCC visibility pop
