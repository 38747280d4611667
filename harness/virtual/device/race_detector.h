// The race detector, for the files of the virtual device. The caller holds the engine's lock,
// except where said.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "harness/virtual/race/footprint.h"

namespace tidemark::device {
struct Stream;
class VectorClock;
}  // namespace tidemark::device

namespace tidemark::race {

inline std::atomic<bool> on{false};
inline bool is_on() { return on.load(std::memory_order_relaxed); }

/// An operation was put into this stream by the calling thread.
void appended(std::uint32_t stream);
/// The stream's last operation (a copy, a memset, a collective) touches these bytes. Inside an
/// operator it goes by the operator's name.
void note(const device::Stream& stream, std::string_view name, const Footprint& where, bool write);
/// A thread of the program has learned that this is done.
void host_learned(const device::VectorClock& done);
/// The operator that the calling thread is in, or "" (no lock needed).
std::string_view current_operator();
/// The calling thread runs host functions: what it does is part of a stream, and not looked at.
void ignore_this_thread();

}  // namespace tidemark::race
