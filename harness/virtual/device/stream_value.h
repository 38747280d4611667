// Stream memory operations on a word (of 4 bytes, aligned). Data moves when it is enqueued here, so
// a write is seen at once, and a wait holds the host, not the stream, until the word is right.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <functional>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t write_value(StreamHandle stream, void* to, std::uint32_t value);
/// cudaErrorNotSupported in device memory that no data moves in, where the word would never change;
/// cudaErrorLaunchTimeout, and a line on stderr, after one and a half times TIDEMARK_TIMEOUT
/// seconds (300 without it).
cudaError_t await_value(StreamHandle stream, const void* at,
                        const std::function<bool(std::uint32_t)>& is_right);

}  // namespace tidemark::device
#pragma GCC visibility pop
