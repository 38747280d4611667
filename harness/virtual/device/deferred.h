// Calls that wait for other ranks. NCCL's calls enqueue and return, but how long a collective
// takes, and what it brings, is known only when the partners have called. Until then it stays here,
// and so do the calls of its thread after it that tell the host nothing: further collectives,
// records of events, waits of streams. They are carried out in the order of the thread's calls, so
// that the device's state is that of a program whose calls had waited. Every other call waits until
// nothing of its thread is left here, and nothing that other threads have put into its stream. If
// the partners do not come for a while, they may wait for this thread: a call goes on whose event
// or stream nothing here concerns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

inline const auto kNoStream = reinterpret_cast<StreamHandle>(~std::uintptr_t{0});

/// Carries the step out, now or in its turn. It is asked again and again until it returns true,
/// with no lock held but that of the turn, on any thread. The calling thread's device is current in
/// it. `stream`: what it puts something into; null for the legacy default stream, kNoStream if it
/// puts nothing into one.
void defer(StreamHandle stream, std::function<bool()> step);

/// Defers the step in a queue of its own: later calls of this thread wait only where `stream` does.
void defer_apart(StreamHandle stream, std::function<bool()> step);

/// Waits until no step is left, of any thread.
void settle();
/// Waits for the steps of this thread, and for those of others in the stream; after a long while
/// for those in the stream alone (of kNoStream: for none).
void settle(StreamHandle stream);
/// Waits for those of this thread for a while: false where steps are left. Partners that did not
/// come in this time are not waited for again here until the first step is done.
bool settle_for_a_while();
/// True if steps of this thread are left, and it is not carrying one out.
bool is_deferring();
/// True if the stream's next operation comes after a step that is left, of any thread.
bool is_held(StreamHandle stream);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {

/// Number of steps left, of all threads.
inline std::atomic<std::size_t> steps_left{0};
/// True if the thread carries a step out; and the operator in which that was called.
bool carries_step_out();
std::string_view operator_of_step();

inline void settle_if_deferring() {
  if (steps_left.load(std::memory_order_acquire) > 0) settle();
}
inline void settle_if_deferring(StreamHandle stream) {
  if (steps_left.load(std::memory_order_acquire) > 0) settle(stream);
}

}  // namespace tidemark::device
