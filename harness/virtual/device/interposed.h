// Interposition: this library's functions replace the C library's for the whole process.
#pragma once

#include <dlfcn.h>
#include <time.h>

#include "harness/virtual/device/device.h"

#define EXPORTED extern "C" [[gnu::visibility("default")]]

namespace tidemark::device {

/// The C library's own. `version`: dlsym might find the oldest of several.
template <class Function>
Function* next(const char* name, const char* version) {
  void* address = dlvsym(RTLD_NEXT, name, version);
  return reinterpret_cast<Function*>(address ? address : dlsym(RTLD_NEXT, name));
}

inline Ns ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000L + time.tv_nsec; }

}  // namespace tidemark::device
