// Common part of every generated stub library. A function that is not modelled names itself once
// and returns its library's own "not supported", whatever its arguments are (C linkage: the caller
// cleans up).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "harness/virtual/device/device.h"

/// Opens the definition of one function by hand in overrides/: STUB(result, name)(arguments) { ...
/// }
#define STUB(result, name) extern "C" [[gnu::visibility("default")]] result name

#define REFUSED(name)                                   \
  extern "C" [[gnu::visibility("default")]] int name(); \
  int name() {                                          \
    tidemark::device::not_supported(library, #name);    \
    return not_supported;                               \
  }
