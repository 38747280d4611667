// Functions and objects of the Python in this process; the layer itself is built without one.
#pragma once

#include <dlfcn.h>

namespace tidemark::recorder {

/// The address of a symbol, as whatever pointer it is assigned to; false: there is none.
template <class T>
bool look_up(T*& pointer, const char* name) {
  pointer = reinterpret_cast<T*>(dlsym(RTLD_DEFAULT, name));
  return pointer != nullptr;
}

}  // namespace tidemark::recorder
