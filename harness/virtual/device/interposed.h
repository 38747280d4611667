// Functions of the C library in whose place this library stands, for all libraries of the process.
#pragma once

#include <dlfcn.h>

#define EXPORTED extern "C" [[gnu::visibility("default")]]

namespace tidemark::device {

/// The C library's own. `version`: dlsym might find the oldest of several.
template <class Function>
Function* next(const char* name, const char* version) {
  void* found = dlvsym(RTLD_NEXT, name, version);
  return reinterpret_cast<Function*>(found ? found : dlsym(RTLD_NEXT, name));
}

}  // namespace tidemark::device
