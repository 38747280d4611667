// Slices: the bytes of a send buffer that go to each rank, and the parts of the buffers that an
// operation uses.
#pragma once

#include <cstddef>

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

/// Parts of `count` elements that this rank's send and receive buffers hold.
struct Parts {
  std::size_t sent, received;
};
Parts parts_of(const Operation& operation);

/// Bytes of the larger one, the same on all ranks.
std::size_t largest_buffer(const Operation& operation);

struct Slice {
  std::size_t at = 0, size = 0;  // bytes
};

/// `chunked`: of an all-reduce, only the chunk that `target` reduces.
Slice slice_to(int target, const Operation& operation, bool chunked);

void copy_to(void* buffer, std::size_t at, const Payload& payload);

}  // namespace tidemark::nccl
