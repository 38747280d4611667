// The device while its program does not call it. A GPU works on while the host sleeps, and
// PyTorch's watchdog counts real seconds: a work that never ends there is an error of the process
// group. So the device counts as drained for threads that give it no work, watchdogs among them,
// once the threads that do give it work have all
//   been silent for a second, neither running nor waiting for a core, and one of them is in a sleep
//   of the program's own: a wait for a partner, a worker or a lock, which a busy machine makes
//   long, is none; or
//   not called for 20 s, outside an operator.
// The clock, and what the threads that give work are told, do not change by this.
#pragma once

#include "harness/virtual/device/engine.h"

namespace tidemark::device {

/// The calling thread gives the device work from now on (the engine's lock is held).
void note_driver(Engine& e);
/// Whether the device has run empty meanwhile (the engine's lock is held). Who polls asks this
/// again and again.
bool has_drained(const Engine& e);

/// Operators that are under way, on all threads.
inline std::atomic<int> operators_under_way{0};

}  // namespace tidemark::device
