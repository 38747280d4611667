// The device while its program does not call it. A GPU works on while the host sleeps, and
// PyTorch's watchdog counts real seconds: a work that never ends there is an error of the process
// group. Two rules say what has ended meanwhile:
//   A time.sleep of the program passes on the host's virtual clock, if its main thread sleeps and
//   has given the device work.
//   So does a sleep of PyTorch in which it waits for its watchdogs before it begins a capture; they
//   look at their works then.
//   Under lagging, where no time passes on the device, sleeps of a second together between two
//   calls have the device drained for threads that give it no work, watchdogs among them.
//   Where no thread has called for 20 s, outside an operator, it has drained for them too. No
//   program that ends in that time depends on real time.
#pragma once

#include "harness/virtual/device/engine.h"

namespace tidemark::device {

/// True if a thread that gives the device no work is to be told that this is done although the host
/// has not waited for it (the engine's lock is held). Once true, it stays true.
bool is_left_alone(Engine& e, const Mark& mark);

/// Operators that are under way, on all threads.
inline std::atomic<int> operators_under_way{0};

}  // namespace tidemark::device
