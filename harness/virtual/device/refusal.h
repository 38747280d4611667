// Refusals of what would become a number that was never computed: a kernel whose results do not
// exist in mode math, and a copy to the host of bytes that no kernel computed.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace tidemark::device {

/// True if the operation `name` (a kernel, a matrix product), which computes nothing here, may be
/// enqueued by this thread. False where bytes are real (mode math, and the thread is not in an
/// operator whose numbers the operator layer computes); the reason is then on stderr.
bool admits_kernel(std::string_view name);
/// True if a launch of this thread was refused since the caller last asked for errors
/// (cudaGetLastError) or for this; extensions launch without looking at the result.
bool take_refusal();
/// Notes the words of an error by which this process refuses what the platform cannot answer, so
/// that it can be told from an error of the program (tidemark_device_is_refusal).
void note_refusal(const std::string& words);
/// One line on stderr, once a process and text.
void say_once(const std::string& text);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {

/// True if a copy to the host may leave "no value" (bytes 0xFF) at present: the environment
/// (TIDEMARK_UNKNOWN=nan) or the calling thread accepts that.
bool accepts_unknown();
/// Says on stderr why `bytes` are not copied to the host, and notes the refusal. Returns
/// cudaErrorNotSupported.
cudaError_t refuse_read(std::size_t bytes);
/// Without its arguments, and not longer than a line can be read.
std::string kernel_name(std::string_view mangled);

}  // namespace tidemark::device
