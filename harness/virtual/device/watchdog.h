// The watchdog threads of PyTorch's process groups. A watchdog sleeps for 100 ms, lets go of the
// works that have ended, with their tensors, and sleeps again. How much memory is alive when the
// host allocates must not depend on the load of the machine. So the schedule says when a watchdog
// sees that a work has ended, and before an operator or a collective the host waits until the
// watchdogs have seen what they can see:
//   instant     every collective before this one
//   lagging     what the host has synchronised with
//   calibrated  what had ended at the last multiple of 100 ms of the host's clock; so has random
// When the program has ended, they see everything. A watchdog also wakes by itself, as without a
// virtual device. It then sees nothing more than that, and what the device has done while the
// program left it alone (idle.h).
#pragma once

#include <chrono>

#include "harness/virtual/device/engine.h"

namespace tidemark::device {

/// The host is about to call an operator, and holds no lock that a watchdog could need.
void let_watchdogs_look();

/// The program has ended, and the watchdogs let go of all works: one that still had some would use
/// libraries that the process has torn down.
void let_watchdogs_end();

/// The host's clock has gone on (the engine's lock is held).
void show_watchdogs_the_time(Engine& e);

/// Sleeps in place of the calling thread, where that is a watchdog that lies down for a second or
/// more; false for all others. Such a watchdog has seen an error, gives the ranks a minute in which
/// they write down what they know, and then ends the process. The host waits for no pass of it any
/// longer, and once the program has ended, the minute has 3 s left.
bool rest_of_watchdog(std::chrono::steady_clock::duration duration);

/// True if the calling thread is a watchdog.
bool is_watchdog();

/// The last operation of this stream is a collective on memory that begins here (the engine's lock
/// is held). PyTorch keeps that alive until a watchdog sees the end, unless the program waits.
void note_memory_of_work(Engine& e, Stream& s, const void* address);

/// True if a watchdog may see that this is done (the engine's lock is held).
bool watchdog_sees(const Engine& e, const Mark& mark);

}  // namespace tidemark::device
