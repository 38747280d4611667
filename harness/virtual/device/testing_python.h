// A test that stands for Python, whose sleeps pass on the host's clock (idle.h). One source of a
// program includes it, and the program exports its symbols.
#pragma once

#include <sys/select.h>

#include "harness/virtual/device/device.h"

extern "C" [[gnu::visibility("default")]] int Py_IsInitialized() { return 1; }

namespace tidemark::device::testing {

/// time.sleep of Python before 3.11, in whole microseconds.
inline void sleep_as_python(Ns duration) {
  timeval time{duration / 1'000'000'000, duration % 1'000'000'000 / 1'000};
  select(0, nullptr, nullptr, nullptr, &time);
}

}  // namespace tidemark::device::testing
